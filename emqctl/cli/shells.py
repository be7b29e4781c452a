"""The shells in which TAB completes a command line: their scripts, and the answer to one TAB."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    shell_complete,
    split_arg_string,
)

from emqctl.cli.complete import Typing
from emqctl.cli.environment import Environment

VARIABLE = "_EMQCTL_COMPLETE"
ALL_S = 0.35  # of the 0.4 s a TAB may take, what this process may; the rest is the shell's

# bash puts what it is given in the place of the last piece only, where it breaks words at : and = too
_BASH = """\
%(complete_func)s() {
    local line=${COMP_LINE:0:COMP_POINT} kept kind value help
    kept=${line##*[[:space:]]}
    kept=${kept%%"${kept##*[$COMP_WORDBREAKS]}"}
    while IFS=$'\\t' read -r kind value help; do
        case $kind in
            plain) COMPREPLY+=("${value#"$kept"}") ;;
            file) compopt -o default ;;
        esac
    done < <(env COMP_LINE="$line" %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local line="${(j: :)words[1,CURRENT-1]} $PREFIX" answer kind value help
    local -a plain described
    for answer in ${(f)"$(env COMP_LINE=$line %(complete_var)s=zsh_complete ${~words[1]} 2>/dev/null)"}; do
        IFS=$'\\t' read -r kind value help <<< $answer
        case $kind in
            plain)
                if [[ -n $help ]]; then
                    described+=("${value//:/\\\\:}:$help")
                else
                    plain+=($value)
                fi ;;
            file) _files ;;
        esac
    done
    (( $#described )) && _describe -V %(prog_name)s described
    (( $#plain )) && compadd -V %(prog_name)s -a plain
}

if [[ $funcstack[1] == %(complete_func)s ]]; then  # found through fpath
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

_FISH = """\
function %(complete_func)s
    set -l line (commandline -cp | string collect)
    for answer in (env COMP_LINE="$line" %(complete_var)s=fish_complete %(prog_name)s 2>/dev/null)
        set -l parts (string split \\t -- $answer)
        switch $parts[1]
            case plain
                string join \\t -- $parts[2..]
            case file
                __fish_complete_path $parts[2]
        end
    end
end

complete --no-files --keep-order --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class Shell(ShellComplete):
    """A shell that hands over the line up to the cursor, and reads kind, word and help from each line of the answer.

    Click's own scripts speak the tongue of the Click that is installed, lose URLs and keys with a colon in
    bash, and miss every second TAB in zsh.
    """

    @property
    def func_name(self) -> str:
        """The shell function: zsh wants it called like its file."""
        return "_emqctl"

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one at the cursor, and what is typed of that one."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        incomplete = "" if line[-1].isspace() else words.pop()
        while words and re.match(r"\w+=", words[0]):  # variables for this one command
            del words[0]
        return words[1:], incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Return whole words, ``--option=`` included where it stands in the same."""
        items = super().get_completions(args, incomplete)
        option = re.match(r"--[\w-]+=", incomplete)
        return [CompletionItem(option[0] + item.value, item.type, item.help) for item in items] if option else items

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return one line of the answer."""
        return f"{item.type}\t{item.value}\t{' '.join((item.help or '').split())}"


class Bash(Shell):
    """Bash 4.4 or later."""

    name, source_template = "bash", _BASH


class Zsh(Shell):
    """Zsh 5 or later."""

    name, source_template = "zsh", _ZSH


class Fish(Shell):
    """Fish 3 or later."""

    name, source_template = "fish", _FISH


SHELLS: dict[str, type[Shell]] = {shell.name: shell for shell in (Bash, Zsh, Fish)}


def script(shell: str) -> str:
    """Return the script that makes a shell ask emqctl at TAB."""
    from emqctl.cli.root import group

    return SHELLS[shell](group, {}, "emqctl", VARIABLE).source()


def answer(variables: Mapping[str, str]) -> int:
    """Print what the line that ``variables`` describe may go on with; nothing where anything fails.

    The line is being typed: there is no place for an error, a note or a question. Returns the exit code.
    """
    started = time.monotonic() - time.process_time()
    from emqctl.cli.root import group

    for shell in SHELLS.values():
        add_completion_class(shell)
    typing = Typing(Environment(variables, None, None, None), ends_at=started + ALL_S)
    with suppress(Exception):
        shell_complete(group, {"obj": typing}, "emqctl", VARIABLE, variables[VARIABLE])
    return 0
