//! The words that this repository does not use, each with its replacement and the reason.
//!
//! A new reader must understand names, comments and messages at first reading. The list excludes words that an earlier
//! version of the code used; it is not a style guide. A line that needs a banned word (a key on disk, a quotation) has
//! a comment `words: allow` with the reason, or its file is in [`EXEMPT`].

use super::text_files;
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

/// A banned word as a case-insensitive regular expression, its replacement, and the reason.
struct Banned(&'static str, &'static str, &'static str);

const PERSON: &str = "data and programs are not people";
const RIDDLE: &str = "readers need a second look";
const ARCHAIC: &str = "not today's English";
const AMERICAN: &str = "American spelling everywhere";
const FIELD: &str = "the field has a term for it";

const BANNED: &[Banned] = &[
    Banned(r"\btold\b|\btells?\b|\btelling\b", "reports, returns, records, distinguishes", PERSON),
    Banned(r"\bhears?\b|\bheard\b", "receives, received", PERSON),
    Banned(r"\bsaw to\b|\bsees to\b", "ensures", RIDDLE),
    Banned(r"what (came|comes|became|becomes) of", "result, outcome", RIDDLE),
    Banned(r"\b(come|comes|came) to the same\b", "are equivalent", RIDDLE),
    Banned(
        r"\bwhat (it|they|this|that|these|each|one|an? \w+) (come|comes|came) to\b",
        "its outcome, its result",
        RIDDLE,
    ),
    Banned(r"\bthe question is asked\b|\bin plain(er)? words\b", "the request, in a simpler form", PERSON),
    Banned(r"\bplainer\b|\bplainest\b", "simpler, simplest", RIDDLE),
    Banned(r"\b(bring|brings|bringing|brought)( [a-z ]{1,30})? about\b", "applies, applied, causes", RIDDLE),
    Banned(r"\bstrikes?\b|\bstruck\b|\bastray\b", "hits, hit, the wrong address", FIELD),
    Banned(r"\btried out\b", "confirmed, reproduced", RIDDLE),
    Banned(r"\b(can|cannot|could|may|must) go on\b", "is runnable, continues", RIDDLE),
    Banned(r"\b(has|have|had) (it|them) not\b", "does not have it", ARCHAIC),
    Banned(r"\bmade anew\b|\bour own making\b", "recreated, our own", ARCHAIC),
    Banned(r"\b(as|like) (it|they) (please|pleases|likes?)\b", "in any order", PERSON),
    Banned(r"\bmend(s|ed|ing)?\b", "fix, fixed", ARCHAIC),
    Banned(r"as if (it|there) had(n't| not)", "say what happens instead", RIDDLE),
    Banned(r"\bis none that\b|\bare none that\b", "no … does", RIDDLE),
    Banned(r"a user that nobody is", "a dedicated unprivileged UID", RIDDLE),
    Banned(r"what (is|was|were) asked", "the request", PERSON),
    Banned(
        r"\bnobody (can|knows?|sees|saw|asks|asked|traces|reads|wants|needs|has)\b|\bwhen nobody\b",
        "unknown, unobserved, unrequested, untraced, unused",
        RIDDLE,
    ),
    Banned(r"\bwhoever\b|\bwhomever\b|\bwhosoever\b", "the caller, the user", ARCHAIC),
    Banned(
        r"\bwhilst\b|\bthereof\b|\btherein\b|\bherein\b|\bhitherto\b|\bnought\b|\bfor ever\b",
        "while, of it, until now, forever",
        ARCHAIC,
    ),
    Banned(r"\baway with it\b|\bnothing speaks against\b", "say it plainly", RIDDLE),
    Banned(r"\bcmdb\b|\bconnection management database\b", "flowdb, flow database", FIELD),
    Banned(r"\basked\b", "requested, sent, `args` for the arguments of a command", PERSON),
    Banned(r"\banew\b", "again, for each call", ARCHAIC),
    Banned(r"\bgoes on\b", "continues", RIDDLE),
    Banned(r"\bcensus\b", "totals", FIELD),
    Banned(r"\batlas\b", "graph", FIELD),
    Banned(r"\bdefuse\b", "def_use", FIELD),
    Banned(r"\bshelf\b", "store, WindowStore", FIELD),
    Banned(r"\bkeeper\b", "reaper, LocalWriter", "it had two meanings"),
    Banned(
        r"\bstruct (Blow|Wound|Aim|Begun|Seen|Known|Asked|Heard|Place|Room|Trouble|Audience|Whole|Went|Ran)\b",
        "a noun of the field",
        FIELD,
    ),
    Banned(r"\bFLAG_[AB]\b", "TAG_CHILD, TAG_GAP", RIDDLE),
    Banned(r"\bbehaviour", "behavior", AMERICAN),
    Banned(r"\bneighbour", "neighbor", AMERICAN),
    Banned(r"\bcolour", "color", AMERICAN),
    Banned(r"\bhonour|\bfavour|\bflavour|\blabour", "-or", AMERICAN),
    Banned(r"\bartefact", "artifact", AMERICAN),
    Banned(r"\blicence\b", "license", AMERICAN),
    Banned(r"\bgrey\b|\bcentre\b|\bjudgement\b|\bprogramme\b", "gray, center, judgment, program", AMERICAN),
    Banned(
        r"\bcancelling\b|\blabelled\b|\bmodelled\b|\btravell(ed|ing)\b|\bsignall(ed|ing)\b",
        "one l (CANCELLED and cancelled() are names of libraries)",
        AMERICAN,
    ),
    Banned(
        r"\b(un|re|de)?(normal|serial|recogn|initial|optim|organ|minim|maxim|summar|synchron|sanit|general|special|final|character|real|util|random|parallel|local|global)is(e|es|ed|ing|ation)\b",
        "-ize",
        AMERICAN,
    ),
    Banned(r"\banalys(e|es|ed|ing)\b", "analyze", AMERICAN),
    Banned(r"\bmisspelt\b|\blearnt\b|\bhalf-way\b", "misspelled, learned, halfway", AMERICAN),
];

/// Files that are not checked: the license, data, built files, and this list.
const EXEMPT: &[&str] = &[
    ":!LICENSE",
    ":!xtask/src/check/words.rs",
    ":!*.lock",
    ":!*lock.json",
    ":!*.sum",
    ":!*.svg",
    ":!*/fixtures/*",
    ":!*/testdata/*",
    ":!spec/vectors/*",
    ":!bench/results/*",
    ":!ui/dist/*",
];

/// Fails if a line has a banned word. The error lists all of them.
pub fn check() -> Result<String, String> {
    let patterns = || BANNED.iter().map(|banned| banned.0);
    let any = set(patterns()).map_err(|e| format!("banned words: {e}"))?;
    let each = patterns().map(single).collect::<Result<Vec<_>, _>>().map_err(|e| format!("banned words: {e}"))?;
    let mut found = Vec::new();
    for (file, text) in text_files(EXEMPT)? {
        // one pass over the file with all patterns; most files have no hit
        if !any.is_match(&text) && !any.is_match(&split_names(&text)) {
            continue;
        }
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.contains("words: allow")) {
            // a pattern may contain an underscore
            let line = if any.is_match(line) { line.to_owned() } else { split_names(line) };
            for index in any.matches(&line) {
                let Banned(_, replacement, reason) = BANNED[index];
                let hit = each[index].find(&line).map_or("", |hit| hit.as_str());
                found.push(format!("{file}:{}: \"{hit}\" → {replacement} ({reason})", number + 1));
            }
        }
    }
    if found.is_empty() {
        return Ok(format!("{} banned words do not occur", BANNED.len()));
    }
    Err(format!("{} uses of banned words\n{}", found.len(), found.join("\n")))
}

/// Underscores separate the words of a name.
fn split_names(text: &str) -> String {
    text.replace('_', " ")
}

// The patterns are ASCII. Without Unicode word boundaries, the search stays fast in a debug build.

fn single(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).case_insensitive(true).unicode(false).build()
}

fn set(patterns: impl Iterator<Item = &'static str>) -> Result<RegexSet, regex::Error> {
    RegexSetBuilder::new(patterns).case_insensitive(true).unicode(false).build()
}

#[cfg(test)]
mod tests {
    use super::{BANNED, set, single};

    #[test]
    fn every_entry_is_a_regular_expression_that_does_not_match_its_replacement() {
        for banned in BANNED {
            let regex = single(banned.0).unwrap();
            assert!(!regex.is_match(banned.1), "{} forbids its own replacement", banned.0);
        }
    }

    #[test]
    fn the_set_of_all_entries_finds_words_in_any_case() {
        let any = set(BANNED.iter().map(|banned| banned.0)).unwrap();
        assert!(any.is_match(&super::split_names("fn nobody_reads_it()")));
        assert!(any.is_match("Whoever “reads” this") && any.is_match("normalised"));
        assert!(!any.is_match("a whole sentence in today's English"));
    }
}
