"""Public package registries: the hosts that package managers take packages from. The only list of them."""

from __future__ import annotations

#: By what they serve. Hosts for uploads are not among them.
REGISTRIES: dict[str, tuple[str, ...]] = {
    "Python": ("pypi.org", "files.pythonhosted.org", "download.pytorch.org"),
    "conda": ("conda.anaconda.org", "repo.anaconda.com"),
    "JavaScript": ("registry.npmjs.org", "registry.yarnpkg.com", "npm.jsr.io", "jsr.io", "nodejs.org"),
    "Rust": ("crates.io", "index.crates.io", "static.crates.io", "static.rust-lang.org"),
    "Go": ("proxy.golang.org", "sum.golang.org"),
    "Ruby": ("rubygems.org", "index.rubygems.org"),
    "Java": ("repo.maven.apache.org", "repo1.maven.org", "plugins.gradle.org", "services.gradle.org"),
    ".NET": ("api.nuget.org",),
    "PHP": ("packagist.org", "repo.packagist.org"),
    "Elixir": ("hex.pm", "repo.hex.pm", "builds.hex.pm"),
    "Haskell": ("hackage.haskell.org",),
    "Perl": ("www.cpan.org", "cpan.metacpan.org", "fastapi.metacpan.org"),
    "Dart": ("pub.dev",),
}

REGISTRY_HOSTS = tuple(host for hosts in REGISTRIES.values() for host in hosts)
