"""The questions of a study, with the actions that apply each value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vcsbench.advice import labels, server_actions
from vcsbench.advice.server_actions import ActionStep
from vcsbench.advice.vocabulary import load_vocabulary
from vcsbench.config.study import QuestionDefinition

# The settings of a server configuration: its command line (svnserve) or directives (httpd) by server.
ServerSettings = Mapping[str, str]


@dataclass(frozen=True)
class CardAction:
    """The commands that apply a value, their side effects (`note`), their cost, and the way back (`undo`).

    `title` is the action in a few words, such as `pack the repository`, "" for a value without one.
    `condition` completes "Only if", such as `you use one client at a time`, "" for an action without one.
    `downtime` names the interruption of the service in a few words, "" if it is unknown.
    """

    steps: Sequence[ActionStep] = ()
    note: str = ""
    cost: str = ""
    undo: str = ""
    condition: str = ""
    downtime: str = ""
    title: str = ""


@dataclass(frozen=True)
class CardQuestion:
    """A question of a study about the best value of an axis, or about the cost of its values."""

    axis: str
    text: str
    # The values to choose from, () for all.
    values: Sequence[str] = ()
    # The value of the answer "yes", "" if the answer names a value.
    yes_value: str = ""
    # By value, the action that applies it.
    actions: Mapping[str, CardAction] = field(default_factory=dict)
    # It has one answer over all cells.
    aggregate: bool = False
    # Other metrics, each with the reader for whom it counts: {"server_cpu_s": "a busy server"}.
    next_to: Mapping[str, str] = field(default_factory=dict)
    # The action that measures values that the grid lacks.
    how_to_measure: CardAction | None = None
    # The key in the study, "" for the axis.
    name: str = ""
    # The values that readers start from, (): the first baseline. The first one that is measured counts.
    start: Sequence[str] = ()
    # The cases of the question, {} for all.
    where: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    # It asks for the cost of values, and recommends none.
    is_cost: bool = False
    # A latency, "" without one: it asks for the number of clients at which this has doubled.
    doubles: str = ""
    # How its values differ in what they do, "" without such sentences.
    why: str = ""

    @property
    def short(self) -> str:
        """Return the question for a line of the terminal: `http/svn?`, `Server cache?`, `Pack?`."""
        # An axis can have several questions, so its own short question does not tell them apart.
        if self.values and self.yes_value:
            return f"{self.name.replace('_', ' ').capitalize()}?"
        short_question = load_vocabulary().axis(self.axis).short_question
        # The question with the name of the axis is its main one.
        is_main = self.name == self.axis and bool(short_question)
        if self.values and not is_main:
            return f"{'/'.join(self.values)}?"
        return short_question or f"{labels.axis_label(self.axis).capitalize()}?"


def read_questions(
    definitions: Mapping[str, QuestionDefinition],
    settings: Mapping[str, Mapping[str, ServerSettings]],
) -> list[CardQuestion]:
    """Return the questions of a study, in its order, each with the actions that apply its values.

    `definitions` are the key `questions` of the study, by name: {"packing": {"question": "Pack?",
    "yes_value": "pack"}}. QuestionDefinition explains their keys. `settings` has the server configurations of
    the axis `config`, {} without this axis: `{"config": {"fast": {"svnserve": "svnserve -d", "httpd": ""}}}`.
    """
    questions = []
    for name, definition in definitions.items():
        # An axis may have several questions. Each then has another name, and the key `axis`.
        axis = definition.get("axis", name)
        # With the key `doubles`, a question asks for the number of clients at which a latency has doubled.
        # That does not depend on what a reader picks, so it has one answer over all cells (`aggregate`).
        is_about_capacity = "doubles" in definition
        questions.append(
            CardQuestion(
                axis=axis,
                text=definition["question"],
                why=definition.get("why", ""),
                values=list(definition.get("values", ())),
                yes_value=definition.get("yes_value", ""),
                actions=_actions_of_question(definition, axis, settings.get(axis, {})),
                aggregate=definition.get("aggregate", is_about_capacity),
                # Further metrics with an answer of their own, such as the CPU time of the server.
                next_to=definition.get("next_to", {}),
                how_to_measure=_how_to_measure(definition),
                name=name,
                start=list(definition.get("start", ())),
                where=definition.get("where", {}),
                is_cost=definition.get("cost", False),
                doubles=definition.get("doubles", ""),
            )
        )
    return questions


def _actions_of_question(
    definition: QuestionDefinition, axis: str, settings: Mapping[str, ServerSettings]
) -> dict[str, CardAction]:
    """Return the actions that apply the values of a question, by value; {} for a question about a cost."""
    # Nobody is advised to do without https.
    if definition.get("cost", False):
        return {}
    # The entry of words.yaml with the actions, such as `git_access` for the axis `access` of git.
    entry = definition.get("words", axis)
    # An action in words.yaml replaces the action of the settings.
    return _actions_of_settings(settings) | _actions_of_words(entry)


def _how_to_measure(definition: QuestionDefinition) -> CardAction | None:
    """Return the action that measures values that the grid lacks, None without one."""
    measuring = definition.get("how_to_measure")
    if not measuring:
        return None
    return CardAction([ActionStep(measuring["command"])], measuring["note"])


def _actions_of_settings(settings: Mapping[str, ServerSettings]) -> dict[str, CardAction]:
    """Return the actions that apply server configurations, by the names of the configurations.

    `settings` is `{"fast": {"svnserve": "svnserve -d", "httpd": ""}}`. A configuration without settings is
    left out.
    """
    actions = {}
    for value, settings_by_server in settings.items():
        steps = []
        for server, text in settings_by_server.items():
            if text:
                steps += server_actions.setting_steps(server, text)
        if steps:
            actions[value] = CardAction(
                steps=steps,
                note=server_actions.NOTE,
                cost=server_actions.settings_cost(settings_by_server),
                undo=server_actions.UNDO,
                downtime=server_actions.DOWNTIME,
            )
    return actions


def _actions_of_words(entry: str) -> dict[str, CardAction]:
    """Return the actions of an entry of words.yaml, such as an axis, by value. Some values have none."""
    actions = {}
    for value, value_words in load_vocabulary().axis(entry).values.items():
        action = value_words.action
        if action:
            # All other keys, such as `cost` and `undo`, are fields of CardAction with the same names.
            facts = action.model_dump(exclude={"command"})
            steps = [ActionStep(action.command)] if action.command else []
            actions[value] = CardAction(steps=steps, **facts)
    return actions
