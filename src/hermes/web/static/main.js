// The page: navigation, colours, and the view that its address names.
import { html, render, useEffect, useState } from "./vendor/preact.js";
import { address, get, page } from "./api.js";
import { Sessions } from "./views/sessions.js";

const LINKS = [["/", "Sessions"], ["/approvals", "Approvals"], ["/costs", "Costs"], ["/plugins", "Plugins"], ["/compare", "Compare"]];
// Views that a first look at the sessions does not need are loaded when they are opened.
const LATER = {
  "/sessions/": () => import("./session/view.js"),
  "/approvals": () => import("./views/approvals.js"),
  "/costs": () => import("./views/costs.js"),
  "/plugins": () => import("./views/plugins.js"),
  "/compare": () => import("./views/compare.js"),
};
const THEMES = { auto: "light", light: "dark", dark: "auto" };
const ICONS = { auto: "◐", light: "☀", dark: "☾" };

const place = () => ({ path: location.pathname.slice(page.root.length) || "/", query: new URLSearchParams(location.search) });

function Later({ path, ...rest }) {
  const [view, setView] = useState(null);
  useEffect(() => {
    setView(null);
    LATER[path]().then((module) => setView({ module }), (error) => rest.setProblem(error.message));
  }, [path]);
  return view ? html`<${view.module.View} ...${rest} />` : html`<p class="empty">Loading…</p>`;
}

function Theme() {
  const [theme, setTheme] = useState(localStorage.getItem("hermes-theme") ?? "auto");
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    localStorage.setItem("hermes-theme", theme);
  }, [theme]);
  return html`<button class="theme" title=${`Colours: ${theme}`} aria-label=${`Colours: ${theme}`} onClick=${() => setTheme((shown) => THEMES[shown])}>${ICONS[theme]}</button>`;
}

function App() {
  const [{ path, query }, setPlace] = useState(place());
  const [pending, setPending] = useState(0);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const change = () => setPlace(place());
    addEventListener("popstate", change);
    return () => removeEventListener("popstate", change);
  }, []);
  const navigate = (to) => {
    history.pushState(null, "", address(to));
    setProblem("");
    setPlace(place());
  };
  const go = (event, to) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    navigate(to);
  };
  const onPending = (count) => {
    if (count !== null) setPending(count);
    else get("/api/approvals").then(({ waiting }) => setPending(waiting.length), () => undefined);
  };
  useEffect(() => {
    if (path !== "/") onPending(null);
    if (!path.startsWith("/sessions/")) document.title = `${LINKS.find(([to]) => to === path)?.[1] ?? "Hermes"} · Hermes`;
  }, [path]);
  const shared = { go, navigate, onPending, setProblem, query };
  const id = path.startsWith("/sessions/") ? decodeURIComponent(path.slice("/sessions/".length)) : "";
  const tab = ["events", "chat"].includes(query.get("tab")) ? query.get("tab") : "timeline";
  return html`<header class="top">
      <a class="brand" href=${address("/")} onClick=${(event) => go(event, "/")}><span class="logo"></span>Hermes</a>
      <nav>${LINKS.map(([to, name]) => html`<a href=${address(to)} aria-current=${path === to ? "page" : undefined} onClick=${(event) => go(event, to)}>${name}${to === "/approvals" && pending ? html` <b class="badge">${pending}</b>` : null}</a>`)}</nav>
      <${Theme} />
    </header>
    ${problem ? html`<p class="problem top-problem" role="alert">${problem} <button class="small" onClick=${() => setProblem("")}>Close</button></p>` : null}
    ${id ? html`<${Later} path="/sessions/" key=${id} id=${id} tab=${tab} ...${shared} />` : null}
    ${path === "/" ? html`<${Sessions} ...${shared} />` : null}
    ${LATER[path] && !id ? html`<${Later} path=${path} ...${shared} />` : null}`;
}

const root = document.getElementById("app");
root.textContent = "";
root.className = "app";
render(html`<${App} />`, root);
