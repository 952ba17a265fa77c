"""The calls of the scripts in `lua/signals`. Generated from their files by `make generate`: do not edit."""
# fmt: off

from __future__ import annotations

from collections.abc import Sequence

from tellback.state.keys import Shard
from tellback.state.script_calls import Arg, Script, ScriptCall, beside, of_shard

_answer_recalls = Script("signals/answer_recalls", "742b7c13fcb06fec8d71a5a901c583bbfd31dc21")
_apply_signals = Script("signals/apply_signals", "fd3aa9ffb9f89bf027b511d5784bab2f86bfaae5")
_bank_stats = Script("signals/bank_stats", "6fde1d206bb87ed30474f2e3abaac9b05dbfc28a")
_begin_decay = Script("signals/begin_decay", "574c253398cbd5c1349003c8e59f42366aa58414")
_decay_clusters = Script("signals/decay_clusters", "0e52e62fd18dd9921b59e8dfb45c65688a778aa8")
_decay_facts = Script("signals/decay_facts", "b40897bc31b84480f9ef6cc1f7a1949ff1c3d013")
_end_decay = Script("signals/end_decay", "3b4e34010b1d2c856e87e3189a5539e8c642ca3c")
_forget_fact = Script("signals/forget_fact", "2e57b4b2f97d0a179d2a744e322fa1aa94fef8c4")
_load_bank = Script("signals/load_bank", "e800186408b82fdd23fa124eff03c53d83af413b")
_load_facts = Script("signals/load_facts", "8472d3cc6a55fb18b63a70d0eb98e4a75a611e6f")
_next_clusters = Script("signals/next_clusters", "86b20fbbb8fbdd7f3af8c802301a20e021ef752c")
_next_facts = Script("signals/next_facts", "d87a01eb934d036ffc9c7a47e6864c41c1be0b58")
_put_embeddings = Script("signals/put_embeddings", "e0c4e3fa392f85d5b40985a8a06847f807b1af9b")
_put_reembedded_clusters = Script("signals/put_reembedded_clusters", "00ca6ce85921ab2c8bf117d191ec12570d52fba1")
_put_reembedded_fact = Script("signals/put_reembedded_fact", "4a00b7ad703dd401c68a7a97e30b66a7fe1262cf")
_rank_facts = Script("signals/rank_facts", "726e89d644251549be0902536595bfd24628ae84")
_read_usefulness = Script("signals/read_usefulness", "c91943f9ea5708761b86eb3252e481812258f30c")
_remember_fact = Script("signals/remember_fact", "22ad7de7702b9ed45a0eb367b5614f58696bfd5d")
_report_encoder = Script("signals/report_encoder", "efae61b460daae70a9ea325020ebcb5bd12c6304")
_set_threshold = Script("signals/set_threshold", "c3a69cf582a9f2e2621df4869b474778d412ad43")
_switch_model = Script("signals/switch_model", "d21dff76c90e84d23edd797bbcd9773c3f965af7")


def answer_recalls(
    *, intake: str, mailboxes: Sequence[str], fence: int, entries: str | bytes, replies: Sequence[str | bytes],
) -> ScriptCall:
    """Put the replies of recalls into their mailboxes and acknowledge the requests."""
    return _answer_recalls.call([intake, *beside(intake, "lease"), *mailboxes], [fence, entries, *replies])


def apply_signals(
    *, intake: str, bank: str, clusters: Sequence[str], hists: Sequence[str], fence: int, entries: str | bytes,
    plan: bytes, vectors: Sequence[bytes],
) -> ScriptCall:
    """Apply whole batches of signals of one bank, in order."""
    return _apply_signals.call(
        [
            intake, *beside(intake, "lease"), bank, *beside(bank, "factscore", "factrecent", "clustervec",
            "clustertext", "clusterver", "clusterstamps", "clusterrecent", "sigseen", "sigseen-old", "siglog",
            "factabove", "factbelow", "bankdays"), *of_shard(intake, "banks", "sigstats"), *clusters, *hists,
        ],
        [len(clusters), fence, entries, plan, *vectors],
    )


def bank_stats(*, bank: str, top: int) -> ScriptCall:
    """Summarize a bank: its size, the present distribution of its scores, and its most and least useful facts."""
    return _bank_stats.call(
        [bank, *beside(bank, "factscore", "factabove", "factbelow", "clusterver", "factinfo", "facttext")],
        [top],
    )


def begin_decay(*, shard: Shard, token: str, lease_ms: int) -> ScriptCall:
    """Claim the shard's weekly decay if it is due and nobody works at it."""
    return _begin_decay.call([*of_shard(shard.prefix, "decay", "banks")], [token, lease_ms])


def decay_clusters(
    *, shard: Shard, clusters: Sequence[str], token: str, lease_ms: int, bank: str, most: int, versions: Sequence[int],
) -> ScriptCall:
    """Decay the scores of some query clusters, in the order of their versions, until enough scores are done."""
    return _decay_clusters.call([*of_shard(shard.prefix, "decay"), *clusters], [token, lease_ms, bank, most, *versions])


def decay_facts(*, bank: str, token: str, lease_ms: int, bank_name: str, about: int) -> ScriptCall:
    """Decay some of a bank's global scores and store where to continue."""
    return _decay_facts.call(
        [bank, *beside(bank, "factscore"), *of_shard(bank, "decay")],
        [token, lease_ms, bank_name, about],
    )


def end_decay(*, shard: Shard, token: str, lease_ms: int, bank: str) -> ScriptCall:
    """Mark one bank, or the shard's whole week, as decayed; the latter also releases the pass."""
    return _end_decay.call([*of_shard(shard.prefix, "decay")], [token, lease_ms, bank])


def forget_fact(
    *, intake: str, factinfo: str, fence: int, entries: str | bytes, event_id: str, new_stamp: str, fact_id: str,
    bank: str,
) -> ScriptCall:
    """Delete one stored fact of a bank: its text and its vector."""
    return _forget_fact.call(
        [
            intake, *beside(intake, "lease"), factinfo, *beside(factinfo, "facttext", "factvec", "factver",
            "factstamps", "factdeleted", "factset", "factseen", "factseen-old", "factnextvec", "factnextset"),
            *of_shard(intake, "factbanks"),
        ],
        [fence, entries, event_id, new_stamp, fact_id, bank],
    )


def load_bank(
    *, bank: str, bank_id: str, version: int, stamp: str, limit: int, oldest: int, signal_ids: Sequence[str],
) -> ScriptCall:
    """Load what a worker needs before it matches queries of a bank."""
    return _load_bank.call(
        [bank, *beside(bank, "clustervec", "clusterver", "clusterstamps", "clusterrecent", "sigseen", "sigseen-old")],
        [bank_id, version, stamp, limit, oldest, *signal_ids],
    )


def load_facts(*, factinfo: str, facts_id: str, version: int, stamp: str, limit: int) -> ScriptCall:
    """Load the changes of a bank's stored facts, for a process that caches their vectors."""
    return _load_facts.call(
        [factinfo, *beside(factinfo, "factvec", "factver", "factstamps", "factdeleted")],
        [facts_id, version, stamp, limit],
    )


def next_clusters(*, bank: str, model: str, weights: str, dimension: int, limit: int) -> ScriptCall:
    """Return the clusters of a bank that its next model has not embedded yet: those written since the last batch."""
    return _next_clusters.call(
        [bank, *beside(bank, "clusterver", "clustertext", "next", "nextvec")],
        [model, weights, dimension, limit],
    )


def next_facts(*, factinfo: str, model: str, weights: str, dimension: int, limit: int) -> ScriptCall:
    """Return the stored facts of a bank that its next model has not embedded yet: those stored since the last batch."""
    return _next_facts.call(
        [factinfo, *beside(factinfo, "factver", "facttext", "factnext", "factnextvec", "factnextset")],
        [model, weights, dimension, limit],
    )


def put_embeddings(*, vec: str, embeddings: Sequence[bytes]) -> ScriptCall:
    """Cache embeddings of queries; a full generation becomes the old one."""
    return _put_embeddings.call([vec, *beside(vec, "vec-old")], [*embeddings])


def put_reembedded_clusters(
    *, bank: str, bank_id: str, stamp: str, model: str, weights: str, since: int, upto: int, vectors: Sequence[Arg],
) -> ScriptCall:
    """Store cluster vectors of a bank's next model."""
    return _put_reembedded_clusters.call(
        [bank, *beside(bank, "clusterstamps", "next", "nextvec")],
        [bank_id, stamp, model, weights, since, upto, *vectors],
    )


def put_reembedded_fact(
    *, factinfo: str, facts_id: str, stamp: str, model: str, weights: str, since: int, upto: int, kind: str,
    fact_id: str | None = None, vector: bytes | None = None,
) -> ScriptCall:
    """Store the vector of one stored fact in its bank's next model."""
    return _put_reembedded_fact.call(
        [factinfo, *beside(factinfo, "factstamps", "factnext", "factver", "factnextvec", "factnextset")],
        [
            facts_id, stamp, model, weights, since, upto, kind, *(() if fact_id is None else (fact_id,)),
            *(() if vector is None else (vector,)),
        ],
    )


def rank_facts(*, factscore: str, start: int, limit: int) -> ScriptCall:
    """Return a page of a bank's facts, the least useful first."""
    return _rank_facts.call([factscore, *beside(factscore, "factabove", "factbelow")], [start, limit])


def read_usefulness(
    *, bank: str, clusters: Sequence[str], bank_id: str, stamp: str, version: int, most: int, fact_ids: Sequence[str],
) -> ScriptCall:
    """Return scores of facts for a query."""
    return _read_usefulness.call(
        [bank, *beside(bank, "factscore"), *clusters],
        [bank_id, stamp, version, most, *fact_ids],
    )


def remember_fact(
    *, intake: str, factinfo: str, fence: int, entries: str | bytes, event_id: str, new_stamp: str, facts_id: str,
    kind: str, model: str, dimension: int, max_facts: int, max_bytes: int, fact_id: str, text: str, vector: bytes,
    weights: str, bank: str,
) -> ScriptCall:
    """Store one fact of a bank, its text and vector, in place of its former ones."""
    return _remember_fact.call(
        [
            intake, *beside(intake, "lease"), factinfo, *beside(factinfo, "facttext", "factvec", "factver",
            "factstamps", "factdeleted", "factset", "factseen", "factseen-old", "factnextvec", "factnextset"),
            *of_shard(intake, "factbanks"),
        ],
        [
            fence, entries, event_id, new_stamp, facts_id, kind, model, dimension, max_facts, max_bytes, fact_id, text,
            vector, weights, bank,
        ],
    )


def report_encoder(*, encoder: str, field: str, state: str | bytes, oldest: int, lifetime_ms: int) -> ScriptCall:
    """Store the state of a model on a host, and delete states that are too old."""
    return _report_encoder.call([encoder], [field, state, oldest, lifetime_ms])


def set_threshold(
    *, bank: str, bank_name: str, bank_id: str, new_stamp: str, model: str, dimension: int, threshold: str,
    weights: str,
) -> ScriptCall:
    """Set the cosine from which two queries of a bank share a cluster; a bank that does not exist begins with it."""
    return _set_threshold.call(
        [bank, *beside(bank, "clusterstamps"), *of_shard(bank, "banks")],
        [bank_name, bank_id, new_stamp, model, dimension, threshold, weights],
    )


def switch_model(
    *, bank: str, bank_id: str, version: int, facts_id: str, facts_version: int, new_id: str, model: str, weights: str,
    dimension: int, threshold: str,
) -> ScriptCall:
    """Switch a bank to another model."""
    return _switch_model.call(
        [
            bank, *beside(bank, "clustervec", "next", "nextvec", "lastvec", "factinfo", "facttext", "factvec",
            "factset", "factnext", "factnextvec", "factnextset"),
        ],
        [bank_id, version, facts_id, facts_version, new_id, model, weights, dimension, threshold],
    )
