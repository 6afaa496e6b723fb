// The form to sign in. A browser that is signed in, but asked outside of the page's folder, is sent there: this storage
// is for this port alone, as the folder is.
const known = localStorage.getItem("hermes-page");
if (known && location.pathname.startsWith(`${known}/`)) localStorage.removeItem("hermes-page");
else if (known && !document.querySelector(".problem")) location.replace(`${known}/`);
