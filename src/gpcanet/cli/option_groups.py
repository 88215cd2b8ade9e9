"""Groups of options: dataclasses whose fields are options of a command.

A field is declared by ``option``, or by its annotated type if several groups have it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from ..errors import InputError, ParameterError


def panel_option(panel: str, *names: str, **settings: Any) -> typer.models.OptionInfo:
    """The declaration of an option in a panel of the help."""
    return typer.Option(*names, rich_help_panel=panel, **settings)


def option(panel: str, *names: str, default: Any = None, **settings: Any) -> Any:
    """A field of a group that is an option in a panel of the help."""
    declared = panel_option(panel, *names, **settings)
    return field(default=default, metadata={"option": declared})


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace every parameter that is a dataclass by one option per field.

    Typer reads the new signature; the command receives the dataclasses. If the command raises a
    ParameterError about one of the fields, the error names the option instead, and quotes a size
    such as 1KiB as it was typed.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _field_parameters(groups[parameter.name])
        else:
            hint = hints[parameter.name]
            parameters.append(parameter.replace(annotation=hint, kind=parameter.KEYWORD_ONLY))
    names: dict[str, str] = {}
    for group in groups.values():
        names |= option_names(group)

    @wraps(command)
    def run(**values: Any) -> None:
        arguments = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        try:
            command(**arguments, **values)
        except ParameterError as error:
            if error.parameter not in names:
                raise
            option = names[error.parameter]
            given = [getattr(group, error.parameter, None) for group in arguments.values()]
            typed = next((value for value in given if isinstance(value, str)), None)
            value = error.value if typed is None or error.value == repr(typed) else typed
            raise InputError(f"{option} {value} {error.reason}") from error

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def option_names(group: Any) -> dict[str, str]:
    """The option of every field of a dataclass, such as ``{"n_components": "--components"}``."""
    # Typer keeps the first name of an option as its default.
    declared = {name: hint.__metadata__[0].default for name, hint in _annotations(group).items()}
    return {name: option for name, option in declared.items() if isinstance(option, str)}


def given_options(group: Any) -> dict[str, Any]:
    """The fields of a dataclass that the user has set; the library has the other defaults."""
    values = {field.name: getattr(group, field.name) for field in fields(group)}
    return {name: value for name, value in values.items() if value not in (None, [])}


def given_names(*groups: Any) -> list[str]:
    """The options of the fields that the user has set."""
    return [option_names(type(group))[name] for group in groups for name in given_options(group)]


def _annotations(group: Any) -> dict[str, Any]:
    """The type of every field of a dataclass, annotated with its option."""
    hints = get_type_hints(group, include_extras=True)
    for found in fields(group):
        if "option" in found.metadata:
            hints[found.name] = Annotated[hints[found.name], found.metadata["option"]]
    return hints


def _field_parameters(group: Any) -> list[inspect.Parameter]:
    hints, keyword = _annotations(group), inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(found.name, keyword, default=found.default, annotation=hints[found.name])
        for found in fields(group)
    ]


#: Panels at the end of the help.
LAST_PANELS = ("Running", "Options")


class GroupedHelpCommand(TyperCommand):
    """A command whose help lists options under the titles of their panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                panel = getattr(parameter, "rich_help_panel", None)
                title = "Arguments" if is_argument else panel or "Options"
                sections.setdefault(title, []).append(record)
        for title in sorted(sections, key=lambda title: title in LAST_PANELS):
            with formatter.section(title):
                formatter.write_dl(sections[title])


def add_command(app: typer.Typer) -> Callable[..., Any]:
    """A decorator that registers a function with groups of options as a command."""

    def register(command: Callable[..., None]) -> Callable[..., None]:
        app.command(cls=GroupedHelpCommand)(with_option_groups(command))
        return command

    return register
