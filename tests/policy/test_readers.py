"""Commands that only read, and those that look as if they did."""

from __future__ import annotations

import pytest

from hermes.policy.judge import changes_in
from policy.corpus import judge

READS = """
ls -la | grep x
git -C dir status
git --no-pager log --oneline
git branch
git branch -vv
git branch --list 'x*'
git tag -l
git remote -v
git config --get user.name
kubectl -n web get pods -o json --output wide
awk '$1 > 5 { n++ } END { print n }' f
sed -n '1,5p; s/new world/x/p' f
sort f | uniq -c
xxd -l 16 f
df --output=pcent
bash -c 'cat f | wc -l'
/usr/bin/cat f
python -c 'print(1)'
cat f > /dev/null 2>&1
npm audit
go env GOPATH
""".strip().splitlines()

CHANGES = """
python -c 'open("a", "w").write("b")'
git -C status push
git log --output=x
git diff --output x
git branch -v -m x
git branch -v new
git remote -v add x y
git grep -O x
kubectl -n get delete pod x
kubectl --odd get delete pod x
awk '{ print > "out" }' f
awk -i inplace '{ print }' f
sed 'w out' f
sed -n 's/a/b/gw out' f
sort -o out f
sort --output=out f
uniq in out
xxd -r in out
tree -o out
yq -i . f
ss -K
npm audit fix
go env -w X=y
terraform plan -out=f
helm template x --output-dir d
./ls
/tmp/cat f
PATH=.:$PATH ls
export PATH=.; ls
bash x.sh
source ./x.sh
sh < x.sh
cat x | sh
eval "ls $X"
bash
python x.py -c 1
cat f > g
: > f
""".strip().splitlines()


@pytest.mark.parametrize("command", READS)
def test_reading(command: str) -> None:
    assert judge(command).only_reads
    assert changes_in(command, cwd="/home/user/project") == ()


@pytest.mark.parametrize("command", CHANGES)
def test_changing(command: str) -> None:
    assert not judge(command).only_reads


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("npm install && git -C x commit -m y", ["command:npm install", "command:git commit"]),
        ("echo x > f; ls >> g", ["edit"]),
        ("> f", ["edit"]),
        ("python3 -m pytest -q", ["command:python3 -m pytest"]),
        ("python x.py -c 1", ["command:python x.py"]),
        ("bash x.sh", ["command:bash x.sh"]),
        ("./build.sh a", ["command:./build.sh"]),
        ("sudo apt install x", ["command:sudo", "command:apt install"]),
        ("for f in a b; do touch $f; done", ["command:touch"]),
        ("kubectl --odd get delete pod x", ["command:kubectl"]),
    ],
)
def test_changes_have_names(command: str, kinds: list[str]) -> None:
    assert [finding.rule for finding in changes_in(command, cwd="/home/user/project")] == kinds
