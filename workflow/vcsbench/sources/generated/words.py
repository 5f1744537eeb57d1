"""The vocabulary that generated names, texts and messages are made of."""

from __future__ import annotations

from random import Random

from vcsbench.sources.generated.quantiles import pick


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SYLLABLES = _words(
    """
    al an ar as at ba be bi bo bu ca ce ci co cu da de di do du el en er es ex fa fe fi fo ga ge
    go ha he hi ho id il im in ir is ka ke ki ko la le li lo lu ma me mi mo mu na ne ni no nu ob
    on or os ou pa pe pi po ra re ri ro ru sa se si so su ta te ti to tu un ur us va ve vi vo wa
    we wi xe ya ze
    """
)

NOUNS = _words(
    """
    addr alloc arg array attr base bit block body bound buffer bytes cache call char child class
    code conf const context copy count cpu ctx cursor data date debug depth desc dev dir entry
    env error event expr field file filter flag format frame func graph group hash head heap
    host index info init input insn item iter job key label lang leaf len level lib line link
    list load lock log loop map mask mem method mode mount mutex name net node num object offset
    op option order output packet page parse pars path pattern pool port prefix proc proto query
    queue range rate ratio record ref region regex req result root route rule scan scope sector
    seed seg set shift signal size slot socket source span stack stage stat state status stmt
    step store str stream string struct sum symbol sync sys table tag target task temp test text
    thread time timer token trace tree type unit user utf util val value var vec vendor version
    view vm width window word zone
    """
)

VERBS = _words(
    """
    add allow append assign attach avoid bind build bump check clean clear close compare convert
    copy create define delete detach disable document drop enable ensure evaluate expand extract
    fetch fill find fix flush free get handle hide ignore import improve initialize insert keep
    limit load lock make mark match merge move normalize open parse pass prevent print push
    quote raise read rebuild reduce refactor regenerate release remove rename replace reset
    restore return revert rewrite save select send set show simplify skip sort split start stop
    store support switch sync test trim unify unlock update use validate wait wrap write
    """
)

GLUE = _words(
    """
    a after all also and are as at be before but by can case does each for from has have if in
    instead into is it its may more must new no not now of old on one only or other out over
    same should so some than that the then there these this to too under until use used was were
    when where which while will with without
    """
)


def noun(rng: Random) -> bytes:
    """A word for a name."""
    return pick(rng, NOUNS).encode("ascii")


def identifier(rng: Random) -> str:
    """A name as programmers make them: two nouns, a verb and a noun, or a made-up word."""
    kind = rng.random()
    if kind < 0.35:
        return f"{pick(rng, NOUNS)}_{pick(rng, NOUNS)}"
    if kind < 0.6:
        return f"{pick(rng, VERBS)}_{pick(rng, NOUNS)}"
    if kind < 0.8:
        return pick(rng, NOUNS)
    return made_up(rng, 2 + int(rng.random() * 2))


def made_up(rng: Random, syllables: int) -> str:
    """A word of so many syllables that means nothing."""
    return "".join(pick(rng, SYLLABLES) for _ in range(syllables))


def sentence(rng: Random, words: int) -> str:
    """So many words of prose, without a full stop."""
    picked = [pick(rng, VERBS).capitalize()]
    while len(picked) < words:
        kind = rng.random()
        if kind < 0.45:
            picked.append(pick(rng, GLUE))
        elif kind < 0.7:
            picked.append(pick(rng, NOUNS))
        elif kind < 0.8:
            picked.append(pick(rng, VERBS))
        else:
            picked.append(identifier(rng))
    return " ".join(picked)
