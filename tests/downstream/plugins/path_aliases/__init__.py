# pyright: basic
ALIASES = {"@docs/": "documentation/", "@src/": "source/"}


def expand_aliases(tool_name=None, args=None, **kwargs):
    # Older versions had no request middleware: plugins changed the live arguments instead.
    if not args:
        return
    for field in ("path", "workdir"):
        value = args.get(field)
        if isinstance(value, str):
            for alias, folder in ALIASES.items():
                if value.startswith(alias):
                    args[field] = folder + value[len(alias) :]


def announce(user_message=None, is_first_turn=False, **kwargs):
    if is_first_turn:
        return {"context": "Folders have short names: " + ", ".join(sorted(ALIASES))}
    return None


def register(ctx):
    ctx.register_hook("pre_tool_call", expand_aliases)
    ctx.register_hook("pre_llm_call", announce)
