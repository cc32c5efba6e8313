"""`weft completion`: what a shell needs to complete commands, options and paths.

The scripts are made from the table of commands, so they cannot lag behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from weft.cli.command import OK, Command, Option
from weft.errors import QueryError

if TYPE_CHECKING:
    Commands = Iterable[Command]


def completion(shell: str) -> int:
    """Print a script that completes commands and options in your shell: bash, zsh or fish.

    bash:  weft completion bash > ~/.local/share/bash-completion/completions/weft
    zsh:   weft completion zsh > "${fpath[1]}/_weft"
    fish:  weft completion fish > ~/.config/fish/completions/weft.fish
    """
    from weft.cli.commands import COMMANDS

    if shell not in SHELLS:
        raise QueryError(f'shell "{shell}" is unknown', hint=f"use one of: {', '.join(SHELLS)}.")
    print("\n".join(SHELLS[shell](COMMANDS)))
    return OK


# -------------------------------------------------------------------------------------------------- bash


def _bash(commands: Commands) -> Iterator[str]:
    known = list(commands)
    yield "# Completion of weft for bash."
    yield "_weft() {"
    yield '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"'
    yield "  COMPREPLY=()"
    yield "  if [ $COMP_CWORD -eq 1 ]; then"
    yield f'    COMPREPLY=($(compgen -W "{" ".join([*(c.name for c in known), "--help", "--version"])}" -- "$current"))'
    yield "    return"
    yield "  fi"
    yield '  case "${COMP_WORDS[1]} $before" in'
    for command in known:
        for option in command.options:
            if not option.is_positional and option.type is not bool:
                yield f'    "{command.name} {option.name}") {_bash_value(option)}; return ;;'
    yield "  esac"
    yield '  case "${COMP_WORDS[1]}" in'
    for command in known:
        yield f"    {command.name})"
        yield f'      if [[ "$current" == -* ]]; then COMPREPLY=($(compgen -W "{_words(command)}" -- "$current"))'
        yield f"      else {_bash_positional(command)}; fi ;;"
    yield "  esac"
    yield "}"
    yield "complete -o filenames -F _weft weft"


def _bash_value(option: Option) -> str:
    if option.values:
        return f'COMPREPLY=($(compgen -W "{" ".join(option.values)}" -- "$current"))'
    kind = {"file": "-f", "folder": "-d"}.get(option.hint)
    return ":" if kind is None else f'mapfile -t COMPREPLY < <(compgen {kind} -- "$current")'


def _bash_positional(command: Command) -> str:
    return next((_bash_value(option) for option in command.options if option.is_positional), ":")


def _words(command: Command) -> str:
    return " ".join([*(word for option in command.options for word in option.spellings), "--help"])


# --------------------------------------------------------------------------------------------------- zsh


def _zsh(commands: Commands) -> Iterator[str]:
    known = list(commands)
    yield "#compdef weft"
    yield "_weft() {"
    yield "  local -a commands=("
    yield from (f"    {_quote(f'{command.name}:{command.summary}')}" for command in known)
    yield "  )"
    yield "  if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield '  local command="$words[2]"'
    yield "  shift words; (( CURRENT-- ))"
    yield '  case "$command" in'
    for command in known:
        asked = " ".join(_quote(argument) for option in command.options for argument in _zsh_option(option))
        yield f"    {command.name}) _arguments {asked} '--help[show the help page]' ;;"
    yield "  esac"
    yield "}"
    yield '_weft "$@"'


def _zsh_option(option: Option) -> Iterator[str]:
    said = option.help.replace("[", r"\[").replace("]", r"\]").replace(":", r"\:")
    action = (
        f"({' '.join(option.values)})"
        if option.values
        else {"file": "_files", "folder": "_files -/"}.get(option.hint, " ")
    )
    if option.is_positional:
        yield f"1:{option.name}:{action}"
    elif option.type is bool:
        yield from (f"{spelling}[{said}]" for spelling in option.spellings)
    else:
        yield f"{option.name}[{said}]:{option.metavar}:{action}"


# -------------------------------------------------------------------------------------------------- fish


def _fish(commands: Commands) -> Iterator[str]:
    known = list(commands)
    yield "# Completion of weft for fish."
    yield "complete -c weft -f"
    for command in known:
        yield f"complete -c weft -n __fish_use_subcommand -a {command.name} -d {_quote(command.summary)}"
    for command in known:
        for option in command.options:
            yield from _fish_option(command, option)


def _fish_option(command: Command, option: Option) -> Iterator[str]:
    begin = f"complete -c weft -n '__fish_seen_subcommand_from {command.name}'"
    takes = f" -x -a {_quote(' '.join(option.values))}" if option.values else {
        "file": " -r -F", "folder": " -x -a '(__fish_complete_directories)'"
    }.get(option.hint, " -x")  # fmt: skip
    if option.is_positional:
        yield f"{begin}{takes.replace(' -x', '')}"
    for spelling in option.spellings:
        yield f"{begin} -l {spelling[2:]}{'' if option.type is bool else takes} -d {_quote(option.help)}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


SHELLS: Mapping[str, Callable[[Commands], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}

COMMAND = Command(completion, (Option("shell", str, "bash, zsh or fish", values=tuple(SHELLS)),))
