"""The page of a study: one HTML file from one template.

The same results give the same page at any time and place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vcsbench import words
from vcsbench.advice.labels import axis_label, value_label
from vcsbench.advice.steps import combinations_of
from vcsbench.advice.wishes import Wish, WorkOfChange, find_wishes
from vcsbench.axis_names import FORMAT_AXIS
from vcsbench.config.study import Study
from vcsbench.formats import AS_IS
from vcsbench.plan.grid import AxisValues, originals
from vcsbench.report import answers, charts, findings_section, page_texts, quality_section, summary
from vcsbench.report.answer_texts import describe_less_work
from vcsbench.report.cell_details import collect_details
from vcsbench.report.change_costs import LoadEstimate, make_estimate, measured_work
from vcsbench.report.charts import Chart
from vcsbench.report.citation import cite_results, make_bibtex
from vcsbench.report.examples import make_examples
from vcsbench.report.finding_tables import Reversal, find_opposites, make_reversed_table
from vcsbench.report.findings_section import FindingView
from vcsbench.report.index_page import PageFacts
from vcsbench.report.legend import LegendEntry, explain_cache_states, list_words, make_legend
from vcsbench.report.pick_answers import PickAnswer, make_pick_answers
from vcsbench.report.picks import (
    MAX_COMBINATIONS,
    Pick,
    SituationRow,
    find_operations,
    find_picks,
    label_situations,
    list_command_lines,
)
from vcsbench.report.rendering import pack_json, read_scripts, render
from vcsbench.report.results import Results, grouped_by, name_cells, unique_values
from vcsbench.report.setup_conditions import compare_conditions
from vcsbench.report.setup_section import Setup, describe_setup
from vcsbench.report.table_sections import (
    Download,
    PlainTable,
    TableSection,
    make_download,
    make_title,
    table_sections,
)
from vcsbench.systems import SUBVERSION, SYSTEMS
from vcsbench.systems.base import System

OWN_COMMAND = "make report REPO=/path/to/repository"
# The prefixes of the names of line plots (page_charts).
LINE_CHART_PREFIXES = ("level", "history")


@dataclass(frozen=True)
class AnswerSection:
    """The parts of a page with advice: the reader's picks, the cards (questions with answers), next runs."""

    condition: str  # a warning that gains differ from published ones, "" without one
    min_effect: str  # the smallest effect worth noting, such as `10 %`
    picks: Sequence[Pick]
    # For the script: the words of each axis, under "", and of its values.
    labels: Mapping[str, Mapping[str, str]]
    # The basis of an estimate for the reader's number of revisions, None if no card is about a load.
    estimate: LoadEstimate | None
    cards: Sequence[answers.CardView]
    pick_answers: Sequence[PickAnswer]
    # The timed command of each operation by its label: `{"cold log": "svn log -v URL"}`.
    command_lines: Mapping[str, str]
    states: Sequence[tuple[str, str]]  # the states of the caches with their meanings
    legend: Sequence[LegendEntry]
    examples: Sequence[PlainTable]
    carries_over: Sequence[str]  # sentences on what holds on other machines
    has_operations: bool  # True if the cards compare operations: the page has a table of changes
    situations: Sequence[SituationRow]  # the best combination of values in each situation
    less_work: Sequence[str]  # sentences on fewer bytes, calls or instructions
    disturbed: str  # such as `8 % of the runs`, "" if other programs disturbed none
    is_much_disturbed: bool
    uncertain: Sequence[str]  # sentences on the comparisons without an answer
    next_steps: Sequence[summary.NextStep]
    commands: Mapping[str, str]  # by the target of make: report, baseline and check
    own_command: str  # measures the reader's own repository, "" if that is already measured

    @property
    def wishes(self) -> Sequence[Wish]:
        """Return the wishes of a reader without picks, [] if the reader's own repository was not measured."""
        return self.pick_answers[0].wishes if self.pick_answers else []


@dataclass(frozen=True)
class FindingSection:
    """The published findings and the user's expectations, with the known facts about their reasons.

    `by_verdict` has the findings by the name under which their verdict is counted, and `meanings` what such a
    name means. `reversed` is a table of comparisons that no finding covers, and whose published result is the
    opposite. `compared` is a table of the published and the measured setup.
    """

    views: Sequence[FindingView]
    by_verdict: Mapping[str, Sequence[FindingView]]
    meanings: Mapping[str, str]
    reasons: Sequence[findings_section.ReasonLine]
    reversed: PlainTable | None
    compared: PlainTable | None
    expectations: Sequence[FindingView]


@dataclass(frozen=True)
class TablePart:
    """The tables of the study, and the titles of those without a cell in the grid (`absent`).

    `key` has the signs in the tables with their meanings. The other two are the origins of the numbers:
    `here, 2026` and `2014, 2 cores, 4 GB, ...`.
    """

    sections: Sequence[TableSection]
    absent: Sequence[str]
    key: Sequence[tuple[str, str]]
    measured_where: str
    published_where: str


@dataclass(frozen=True)
class Page:
    """The data of a page, for the template."""

    study: Study
    own_repository: str
    facts: PageFacts
    cold_meaning: str  # it stands above all other uses of the word `cold`; "" without a cold cell
    header: Sequence[str]  # the lines below the title
    missing: str  # a line on cells and rounds without a result
    result: str  # sentences on the number of findings by verdict
    answers: AnswerSection
    findings: FindingSection
    tables: TablePart
    charts: Mapping[str, Chart]  # by the chart's name
    history: PlainTable | None  # the saved baselines
    setup: Setup
    time: Sequence[str]  # sentences on the use of time
    noise: str  # sentences on the noise, and on what counts as a difference
    quality: Sequence[PlainTable]
    remarks: Sequence[str]  # sentences on the quality of the data
    raw: Download | None  # the file of all timed runs
    limits: Sequence[str]  # sentences on the limits of the numbers
    words: Mapping[str, str]  # with their meanings
    citation: Mapping[str, str]  # the facts to cite by name
    bibtex: str
    cells: Mapping[str, str]  # the label of each cell, by its path
    # Gzipped JSON with the runs behind each number, for the script. "" if nothing was measured.
    packed_details: str
    # The address of each chart's image, by the chart's name.
    images: Mapping[str, str] = field(default_factory=dict)

    @property
    def repeats_published(self) -> bool:
        """Return True for a published study."""
        return bool(self.study.numbers) and not self.own_repository

    @property
    def begins_with_tables(self) -> bool:
        """Return True for a published study, and for one without questions. Other pages begin with advice."""
        return self.repeats_published or not self.study.questions

    @property
    def lines(self) -> list[str]:
        """Return the names of the line plots. The section Plots shows them, or the card on capacity."""
        return [name for name in self.charts if name.startswith(LINE_CHART_PREFIXES)]

    @property
    def specifications(self) -> dict[str, Mapping[str, object]]:
        """Return the specification of each chart, which the script draws."""
        return {name: chart.spec for name, chart in self.charts.items()}


def build_page(results: Results) -> str:
    """Return the page of a study without its charts."""
    return _render_page(describe_page(results), {})


def build_page_with_charts(results: Results, folder: Path) -> tuple[str, PageFacts]:
    """Return the page of a study with its facts for the index, and write its charts into a folder."""
    page = describe_page(results)
    svgs = charts.draw(page.charts.values())
    charts.write_charts(page.charts.values(), svgs, folder)
    return _render_page(page, svgs), page.facts


def _render_page(page: Page, svgs: Mapping[str, str]) -> str:
    """Return the HTML of the page. `svgs` maps a chart's name to its SVG."""
    scripts = [read_scripts()]
    images = {name: charts.image_url(svg) for name, svg in svgs.items()}
    if images:
        # Vega is 1 MB, and a page without a chart does not need it.
        scripts.insert(0, charts.script_bundle())
    return render("report.html.jinja", {"page": replace(page, images=images)}, scripts)


def describe_page(results: Results) -> Page:
    """Return the data of the page of one study, section by section. Parts without data are empty."""
    # Altair takes time to import, and only the jobs that write pages need it.
    from vcsbench.report.page_charts import make_charts

    study = results.study
    setup = describe_setup(results)
    tables = table_sections(results)
    findings = _describe_findings(results, setup, tables)
    answer_section = _describe_answers(results, setup, tables)
    # The forest plots and the noise show only rows that fit the reader's picks.
    pick_axes = [pick.axis for pick in answer_section.picks]
    page_charts = make_charts(results, answer_section.cards, findings.views, pick_axes)
    # The facts for the index of all pages.
    index_facts = PageFacts(
        study=study.name,
        title=study.title,
        date=setup.last.strftime("%Y-%m-%dT%H:%MZ") if setup.last else "",
        host=words.enumeration(setup.host_names),
        cells=len(originals(results.grid)),
        measured=len({run["cell"] for run in originals(results.measurements)}),
        skipped=page_texts.count_skipped(results),
        # Outdated results, and rounds that are not measured so far, did not fail.
        failures=len(results.failed_rounds),
        # FindingView is a subclass of FindingFacts, whose fields the index uses.
        findings=list(findings.views),
    )
    return Page(
        study=study,
        own_repository=results.own_repository,
        facts=index_facts,
        cold_meaning=page_texts.COLD_MEANING if results.has_cold_cells else "",
        header=page_texts.describe_head(results, setup),
        missing=page_texts.describe_missing(results),
        result=findings_section.describe_findings(findings.views),
        answers=answer_section,
        findings=findings,
        tables=_describe_tables(results, setup, tables),
        charts={chart.name: chart for chart in page_charts},
        history=page_texts.make_history_table(results.history),
        setup=setup,
        time=page_texts.describe_time(results.account),
        noise=f"{quality_section.judge_noise(results.account)} {quality_section.SURENESS}".strip()
        if index_facts.measured
        else "",
        quality=quality_section.make_quality_tables(results),
        remarks=quality_section.describe_quality(results),
        raw=make_download(
            results,
            path=f"measurements/{study.name}.csv",
            name=f"{study.name}-measurements.csv.gz",
        ),
        limits=page_texts.describe_limits(results, setup),
        words=list_words(results),
        citation=cite_results(results, setup),
        bibtex=make_bibtex(results, setup),
        cells=name_cells(results),
        # A click on a number opens a dialog with the runs behind the number.
        packed_details=pack_json(collect_details(results, tables)) if index_facts.measured else "",
    )


def _describe_answers(
    results: Results, setup: Setup, tables: Sequence[TableSection]
) -> AnswerSection:
    """Return the parts of a page with advice: the cards, answers for a reader's own values, and next runs.

    A card has a question, such as which format to choose, with its answer over all cells. Picks are the
    values that a reader selects as what he has, such as f6 and http. The answers for each combination of
    picks are decided here, and the script of the page only shows the answers of the selected combination.
    """
    is_measured = bool(originals(results.measurements))
    # Comparisons whose published result is the opposite of the measured one.
    opposites = find_opposites(results, tables)
    cards = answers.make_card_views(results, opposites)
    picks = find_picks(results, cards)
    # An operation is a command with a state of the caches, such as the cold log.
    operations = find_operations(results, cards)
    # The time that changes took here, such as a load into another format.
    work = measured_work(results)
    # Next steps are runs that improve the answers. Without a measured run, there is nothing to improve.
    next_steps = summary.suggest_next_steps(results, results.command) if is_measured else []
    # These sentences of the study are about its own repositories, not about the user's.
    carries_over: Sequence[str] = ()
    if is_measured and not results.own_repository:
        carries_over = results.study.carries_over
    disturbed_share = summary.disturbed_share(results.valid_runs)
    return AnswerSection(
        # The advice.
        picks=picks,
        pick_answers=_answer_picks(results, picks, operations, work, opposites),
        cards=cards,
        estimate=_estimate_load(results, cards),
        examples=make_examples(results),
        situations=label_situations(results),
        less_work=[describe_less_work(less) for less in results.advice.less_work],
        # Texts that explain the advice.
        min_effect=f"{results.advice.min_effect_pct:g} %",
        has_operations=bool(operations),
        command_lines=list_command_lines(operations, setup.commands),
        states=explain_cache_states(operations),
        legend=make_legend(cards, results.advice.min_effect_pct),
        labels=_label_values(results),
        # The limits of the advice. The page prints a link to the findings behind `condition`.
        condition=page_texts.describe_condition(results, setup) if results.findings else "",
        carries_over=carries_over,
        disturbed=summary.describe_disturbance(disturbed_share),
        is_much_disturbed=disturbed_share > summary.MUCH_DISTURBED_SHARE,
        uncertain=page_texts.describe_uncertain(results, next_steps, _count_comparisons(cards)),
        # The runs that a reader can make.
        next_steps=next_steps,
        commands=_list_commands(results),
        own_command=_find_own_command(results),
    )


def _answer_picks(
    results: Results,
    picks: Sequence[Pick],
    operations: Sequence[AxisValues],
    work: WorkOfChange,
    opposites: Sequence[Reversal],
) -> list[PickAnswer]:
    """Return the answers for each combination of picks that a measurable cell fits, that without picks first.

    `operations`, `work` and `opposites` are as in _describe_answers().
    """
    # The values that can be picked: {"format": ["f6", "f7"], "access": ["http", "svn"]}.
    values_by_axis = {pick.axis: [value for value, _ in pick.values] for pick in picks}
    grid = originals(results.grid)
    combinations = combinations_of(grid, values_by_axis, MAX_COMBINATIONS)
    axes = list(values_by_axis)
    all_answers = make_pick_answers(results.advice, combinations, axes, operations, work, opposites)
    # A wish is an operation with the change that makes it faster: the cold log over svn, by packing. The
    # change starts from the picked values, and on other axes from those of the user's repository.
    present = _find_present_values(results, picks)
    system = _find_system(results)
    with_wishes = []
    for answer in all_answers:
        wishes: Sequence[Wish] = []
        # Without a repository of the user and without picks, nothing shows from what a change starts.
        if results.own_repository or answer.picks:
            wishes = find_wishes(results.advice, {**present, **answer.picks}, work, system)
        with_wishes.append(replace(answer, wishes=wishes))
    return with_wishes


def _estimate_load(results: Results, cards: Sequence[answers.CardView]) -> LoadEstimate | None:
    """Return the measured time and size of a load, which the script scales to the reader's revisions.

    Return None if no card is about a load. Only Subversion has such loads: the repositories of other systems
    have no formats. A card has `costs` if a load was timed, or the sizes of files are known.
    """
    has_loads = FORMAT_AXIS in results.order and any(view.costs for view in cards)
    return make_estimate(results) if has_loads else None


def _count_comparisons(cards: Sequence[answers.CardView]) -> int:
    """Return the number of different comparisons in the cards. Two questions may show the same one."""
    return len(
        {
            (view.card.question.axis, frozenset(row.pair.sides), frozenset(row.where.items()))
            for view in cards
            for row in view.rows
        }
    )


def _find_own_command(results: Results) -> str:
    """Return the command that measures the reader's own repository, "" if it is measured already.

    The command keeps a study with today's questions, such as deployed-server. A published study is repeated
    on its own repositories, so its page has the command of the study for users' repositories.
    """
    if results.own_repository:
        return ""
    study = results.study
    if study.questions and not study.numbers:
        return OWN_COMMAND.replace("REPO=", f"STUDY={study.name} REPO=")
    return OWN_COMMAND


def _find_present_values(results: Results, picks: Sequence[Pick]) -> dict[str, str]:
    """Return the known values of the user's measured repository: the `preset` of each pick, and AS_IS.

    AS_IS stands for an exact copy: with its own format, or for git with its own packs and refs.
    """
    measurable = [cell for cell in results.grid if not cell.get("skip")]
    values: dict[str, str] = {}
    for axis in results.order:
        if any(cell.get(axis) == AS_IS for cell in measurable):
            values[axis] = AS_IS
    return values | {pick.axis: pick.preset for pick in picks if pick.preset}


def _find_system(results: Results) -> System:
    """Return the system of all repositories of a study with answers: it has only one."""
    # The records of repositories name their system, unless it is Subversion. So there is at most one name.
    names = {context["repository"].get("system", "") for context in results.contexts}
    names.discard("")
    return SYSTEMS.get(max(names, default=""), SUBVERSION)


def _list_commands(results: Results) -> dict[str, str]:
    """Return the commands that measure again, save the results, and check them, by their target of make."""
    command = results.command
    saving = replace(command, baseline="before")
    return {
        "report": command.text(),
        "baseline": saving.text("baseline"),
        "check": command.text("check"),
    }


def _label_values(results: Results) -> dict[str, dict[str, str]]:
    """Return the words for each axis and its values: `{"packing": {"": "packing", "pack": "packed"}}`."""
    labels: dict[str, dict[str, str]] = {}
    for axis, values in results.order.items():
        labels[axis] = {"": axis_label(axis)}
        for value in values:
            labels[axis][value] = value_label(axis, value)
    return labels


def _describe_findings(
    results: Results, setup: Setup, tables: Sequence[TableSection]
) -> FindingSection:
    """Return the data of the sections "Published findings" and "Your expectations" of a page."""
    make_views = findings_section.make_finding_views
    views = make_views(results, results.findings, results.definitions, tables)
    expectations = make_views(results, results.expectations, results.checks, tables)
    # `steps` are the reasons of a verdict, with what to do about them (ReasonText).
    reasons = [(view.counted_verdict, view.steps) for view in views]
    return FindingSection(
        views=views,
        by_verdict=grouped_by(views, lambda view: view.counted_verdict),
        meanings=findings_section.COUNTED_MEANINGS,
        reasons=findings_section.summarise_reasons(reasons),
        # Without any finding, the page has no section for this table.
        reversed=make_reversed_table(results, tables) if views else None,
        compared=compare_conditions(setup.conditions, results.study),
        expectations=expectations,
    )


def _describe_tables(results: Results, setup: Setup, sections: Sequence[TableSection]) -> TablePart:
    """Return the tables of a page, the titles of the study's other tables, and the origins of the numbers."""
    study = results.study
    measured_where = [words.enumeration(setup.host_names)]
    if setup.last:
        measured_where.append(str(setup.last.year))
    published_where = []
    # A date is as 2014, 2014-07 or 2014-07-31; "" for a study that repeats nothing.
    if study.date:
        year, *_ = study.date.split("-")
        published_where.append(year)
    if study.published:
        published_where.append(study.published.machine)
    shown = {section.name for section in sections}
    absent = [make_title(table) for name, table in study.tables.items() if name not in shown]
    return TablePart(
        sections=sections,
        absent=absent,
        key=unique_values(entry for section in sections for entry in section.key),
        measured_where=", ".join(text for text in measured_where if text),
        published_where=", ".join(published_where),
    )
