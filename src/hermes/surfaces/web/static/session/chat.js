// The conversation of a session as text, and a box to continue it.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { get, page, post } from "../api.js";
import { Composer } from "../parts.js";

export function Chat({ id, head, isLive, text, setProblem }) {
  const [messages, setMessages] = useState(null);
  const [sent, setSent] = useState("");
  const end = useRef(null);
  useEffect(() => {
    get(`/api/sessions/${encodeURIComponent(id)}/messages`).then(
      (found) => { setMessages(found); setSent(""); },
      (error) => setProblem(error.message),
    );
  }, [id, head]);
  useEffect(() => end.current?.scrollIntoView({ block: "end" }), [messages?.length, text.length, sent]);
  const send = async (message) => {
    setSent(message);
    try {
      await post("/api/chat", { text: message, session: id, key: crypto.randomUUID() });
      return true;
    } catch (error) {
      setSent("");
      setProblem(error.message);
      return false;
    }
  };
  const stop = () => post(`/api/chat/${encodeURIComponent(id)}/stop`).catch((error) => setProblem(error.message));
  return html`<div class="chat">
    <div class="messages" tabindex="0" aria-live="polite">
      ${(messages ?? []).map((message) => html`<div class=${`message ${message.role}`}>${message.text}</div>`)}
      ${sent ? html`<div class="message user">${sent}</div>` : null}
      ${text ? html`<div class="message assistant streaming">${text}</div>` : null}
      ${isLive && !text ? html`<div class="message assistant working"><i></i><i></i><i></i></div>` : null}
      <div ref=${end}></div>
    </div>
    ${page.chat
      ? html`<div class="chat-box"><${Composer} placeholder="Message" onSend=${send} />${isLive ? html`<button class="danger" onClick=${stop}>Stop</button>` : null}</div>`
      : null}
  </div>`;
}
