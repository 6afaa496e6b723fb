// Requests to the server, and its live events.
import { useEffect, useRef, useState } from "./vendor/preact.js";

export const page = JSON.parse(document.getElementById("data").textContent);

export const address = (path) => page.root + path;

const read = async (response) => {
  const data = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(data.error || `the server answered ${response.status}`);
  return data;
};

// Milliseconds until a server that was not reached is asked again.
export const AGAIN = 2000;

const ask = (path, options) =>
  fetch(address(path), options).catch(() => {
    throw Object.assign(new Error("the server cannot be reached: is hermes still running?"), { isUnreachable: true });
  });

export const get = async (path) => read(await ask(path, { headers: { accept: "application/json" } }));

export const post = async (path, body) =>
  read(
    await ask(path, {
      method: "POST",
      headers: { "content-type": "application/json", "x-hermes-csrf": page.csrf },
      body: JSON.stringify(body ?? {}),
    }),
  );

// What a path answers, or the error. Asked again when the path or `again` changes, and until the server is reached.
export const useData = (path, again = 0) => {
  const [state, setState] = useState({});
  useEffect(() => {
    let timer;
    let isCurrent = true;
    const load = () =>
      get(path).then(
        (data) => isCurrent && setState({ data, path }),
        (error) => {
          if (!isCurrent) return;
          setState({ error: error.message, path });
          if (error.isUnreachable) timer = setTimeout(load, AGAIN);
        },
      );
    load();
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [path, again]);
  return state;
};

// Live events of a path, each given to the handler of its name. The browser connects again by itself and says the
// last number it has seen. Where the server refuses, the reason is shown, and it is asked again later.
// Returns whether the connection is open.
export const useLive = (path, after, handlers) => {
  const [connected, setConnected] = useState(true);
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    if (path === null) return undefined;
    let source, timer, seen = after;
    const connect = () => {
      source = new EventSource(address(`${path}?after=${seen}`));
      source.onopen = () => setConnected(true);
      source.onerror = () => {
        setConnected(false);
        if (source.readyState !== EventSource.CLOSED) return;
        get("/api/approvals").catch((error) => latest.current.problem?.({ error: error.message }));
        timer = setTimeout(connect, 3000);
      };
      for (const name of ["sessions", "rows", "text", "gone", "problem"]) {
        source.addEventListener(name, (event) => {
          if (name === "gone") source.close();
          if (event.lastEventId) seen = event.lastEventId;
          latest.current[name]?.(JSON.parse(event.data));
        });
      }
    };
    connect();
    return () => {
      clearTimeout(timer);
      source.close();
    };
  }, [path]);
  return connected;
};
