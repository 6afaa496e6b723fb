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
// Modules of views that are there already.
const loaded = {};

const place = () => ({ path: location.pathname.slice(page.root.length) || "/", query: new URLSearchParams(location.search) });

const load = async (path) => (loaded[path] ??= await LATER[path]());

function Later({ path, ...rest }) {
  const [, setCount] = useState(0);
  useEffect(() => {
    if (loaded[path]) return;
    load(path).then(() => setCount((old) => old + 1), (error) => rest.setProblem(`${error.message}. Is the server running? Load the page again.`));
  }, [path]);
  return loaded[path] ? html`<${loaded[path].View} ...${rest} />` : html`<p class="empty">Loading…</p>`;
}

// The choice is a cookie, so that a document arrives in its colours.
function Theme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "auto");
  const change = () => {
    const next = THEMES[theme];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    document.cookie = `hermes_theme=${next}; path=/; max-age=31536000; samesite=strict`;
    setTheme(next);
  };
  return html`<button class=${`theme ${theme}`} title=${`Colours: ${theme}`} aria-label=${`Colours: ${theme}`} onClick=${change}><i></i></button>`;
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

// The document shows the view already: it is painted first, and then its elements are taken over.
const start = async () => {
  const { path } = place();
  const view = path.startsWith("/sessions/") ? "/sessions/" : path;
  if (LATER[view]) await load(view).catch(() => undefined);
  const root = document.getElementById("app");
  for (const placeholder of root.querySelectorAll(".needs-script")) placeholder.remove();
  render(html`<${App} />`, root);
  localStorage.setItem("hermes-page", page.root);
};
const painted = new Promise((resolve) => {
  new PerformanceObserver(resolve).observe({ type: "paint", buffered: true });
  // A window that is not visible is not painted.
  setTimeout(resolve, document.hidden ? 0 : 300);
});
painted.then(start);
