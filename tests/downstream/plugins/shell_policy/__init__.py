# pyright: basic
import re
import threading

DENIED = [
    (re.compile(r"\brm\s+-\w*r"), "recursive deletion"),
    (re.compile(r"\bcurl\b.*\|\s*(ba)?sh\b"), "piping a download into a shell"),
]

_refused = []
_lock = threading.Lock()


def check_command(tool_name, args):
    if tool_name != "terminal":
        return None
    command = str(args.get("command", ""))[:20000]
    for pattern, why in DENIED:
        if pattern.search(command):
            return {"action": "block", "message": f"shell-policy: {why} is not allowed here"}
    return None


def remember(tool_name, status, error_message=None):
    if status == "blocked":
        with _lock:
            _refused.append(f"{tool_name}: {error_message}")


def hide_tokens(command, output, returncode):
    if "tok_" in output:
        return re.sub(r"tok_\w+", "tok_***", output)
    return None


def show(raw_args):
    with _lock:
        return "\n".join(_refused) or "nothing was refused"


def register(ctx):
    ctx.register_hook("pre_tool_call", check_command)
    ctx.register_hook("post_tool_call", remember)
    ctx.register_hook("transform_terminal_output", hide_tokens)
    ctx.register_command("refused", show, description="What the shell policy refused")
