// One session as a document of its own: the data is inside, and nothing is loaded.
import { html, render, useEffect, useState } from "./vendor/preact.js";
import { Detail } from "./session/detail.js";
import { Figures } from "./parts.js";
import { Timeline } from "./session/timeline.js";
import { Waterfall } from "./session/waterfall.js";

const recorded = JSON.parse(document.getElementById("data").textContent);

function Report() {
  const [selected, setSelected] = useState(null);
  const [timeline] = useState(() => {
    const made = new Timeline(recorded.session.id);
    made.apply(recorded.rows);
    return made;
  });
  useEffect(() => {
    const keys = (event) => event.key === "Escape" && setSelected(null);
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  return html`<main class="session-view">
    <div class="session-head"><h1>${recorded.session.title || recorded.session.id}</h1><${Figures} line=${recorded.session} />
      ${recorded.session.error ? html`<p class="problem">${recorded.session.error}</p>` : null}
      <p class="sub"><code>${recorded.session.id}</code></p></div>
    <div class="split">
      <${Waterfall} timeline=${timeline} version=${0} isLive=${false} selected=${selected?.key} onSelect=${setSelected} />
      ${selected ? html`<${Detail} row=${selected} onClose=${() => setSelected(null)} load=${(row) => recorded.events[`${row.session} ${row.seq}`]} />` : null}
    </div>
  </main>`;
}

const root = document.getElementById("app");
root.textContent = "";
root.className = "app report";
render(html`<${Report} />`, root);
