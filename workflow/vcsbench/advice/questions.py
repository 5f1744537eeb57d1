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
    `condition` completes "Only if": the action interrupts the service. `downtime` names the interruption in
    a few words, "" if it is unknown.
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
    """A question of a study.

    `values` are those to choose from, () for all. `yes_value` makes the answer yes or no. `actions` has, by
    value, the action that applies it. `aggregate` requests one answer over all cells. `next_to` has other
    metrics with the reader for whom each counts. `how_to_measure` measures values that the grid lacks. `name`
    is its key in the study, "" for its axis. `where` selects its cases, {} for all. `is_cost`: it asks for
    the cost of values, and recommends none. `doubles` is a latency: it asks for the number of clients at
    which this has doubled, and has an answer for each case.
    """

    axis: str
    text: str
    values: Sequence[str] = ()
    yes_value: str = ""
    actions: Mapping[str, CardAction] = field(default_factory=dict)
    aggregate: bool = False
    next_to: Mapping[str, str] = field(default_factory=dict)
    how_to_measure: CardAction | None = None
    name: str = ""
    where: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    is_cost: bool = False
    doubles: str = ""

    @property
    def short(self) -> str:
        """Return the question for a line of the terminal: `http/svn?`, `Pack?`, `Storage?`."""
        if self.values:
            return f"{'/'.join(self.values)}?"
        short_question = load_vocabulary().axis(self.axis).short_question
        return short_question or f"{labels.axis_label(self.axis).capitalize()}?"


def read_questions(
    definitions: Mapping[str, QuestionDefinition],
    settings: Mapping[str, Mapping[str, ServerSettings]],
) -> list[CardQuestion]:
    """Return the questions of a study, in its order, each with the actions that apply its values.

    `definitions` are the key `questions` of the study, by name. `settings` has the settings of each server
    configuration, by the axis `config` and its values, {} for a study without this axis. Example:
    `{"config": {"fast": {"svnserve": "svnserve -d -r ROOT --threads", "httpd": ""}}}`.
    """
    questions = []
    for name, definition in definitions.items():
        axis = definition.get("axis", name)
        actions = {}
        # The files of a server configuration show how to apply it. So configurations of the user, which are
        # not in words.yaml, have an action, too.
        for value, settings_by_server in settings.get(axis, {}).items():
            action = _settings_action(settings_by_server)
            if action:
                actions[value] = action
        # An action in words.yaml has precedence.
        actions |= _actions_of_words(definition.get("words", axis))
        is_cost = definition.get("cost", False)
        # Nobody is advised to do without a requirement, such as https.
        if is_cost:
            actions = {}
        how_to_measure = None
        measuring = definition.get("how_to_measure")
        if measuring:
            step = ActionStep(measuring["command"])
            how_to_measure = CardAction(steps=[step], note=measuring["note"])
        questions.append(
            CardQuestion(
                axis=axis,
                text=definition["question"],
                values=list(definition.get("values", ())),
                yes_value=definition.get("yes_value", ""),
                actions=actions,
                # A question about capacity has no answer for picks, but one for each case.
                aggregate=definition.get("aggregate", "doubles" in definition),
                next_to=definition.get("next_to", {}),
                how_to_measure=how_to_measure,
                name=name,
                where=definition.get("where", {}),
                is_cost=is_cost,
                doubles=definition.get("doubles", ""),
            )
        )
    return questions


def _settings_action(settings_by_server: ServerSettings) -> CardAction | None:
    """Return the action that applies a server configuration, None if it has no settings.

    Example of the settings: {"svnserve": "svnserve -d -r ROOT --threads", "httpd": ""}.
    """
    # A configuration may concern one of the servers only. The other server has "".
    changed = {server: text for server, text in settings_by_server.items() if text}
    if not changed:
        return None
    steps = []
    for server, text in changed.items():
        steps += server_actions.setting_steps(server, text)
    return CardAction(
        steps=steps,
        note=server_actions.NOTE,
        # A server without settings has its default cache.
        cost=server_actions.settings_cost(settings_by_server),
        undo=server_actions.UNDO,
        downtime=server_actions.DOWNTIME,
    )


def _actions_of_words(axis: str) -> dict[str, CardAction]:
    """Return the actions of an axis in words.yaml, by value. Values without an action there are left out."""
    actions = {}
    for value, words in load_vocabulary().axis(axis).values.items():
        action = words.action
        if action:
            steps = [ActionStep(action.command)] if action.command else []
            actions[value] = CardAction(
                title=action.title,
                steps=steps,
                note=action.note,
                cost=action.cost,
                undo=action.undo,
                condition=action.condition,
                downtime=action.downtime,
            )
    return actions
