// Figures and times as short text.

export const duration = (seconds) => {
  if (seconds == null) return "";
  if (seconds < 0) seconds = 0;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
};

export const money = (usd) => {
  if (usd == null) return "";
  if (usd === 0) return "$0";
  return usd >= 0.1 ? `$${usd.toFixed(2)}` : `$${usd.toFixed(4)}`;
};

export const count = (number) => (number ?? 0).toLocaleString("en");

export const compact = (number) => {
  if (number < 1000) return String(number);
  return number < 1e6 ? `${(number / 1e3).toFixed(number < 1e4 ? 1 : 0)}k` : `${(number / 1e6).toFixed(1)}M`;
};

const two = (number) => String(number).padStart(2, "0");

export const clock = (at) => {
  const time = new Date(at * 1000);
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
};

export const moment = (at) => {
  const time = new Date(at * 1000);
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}`;
};

export const ago = (at) => {
  const seconds = Date.now() / 1000 - at;
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return seconds < 7 * 86400 ? `${Math.floor(seconds / 86400)} d ago` : moment(at).slice(0, 10);
};

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
