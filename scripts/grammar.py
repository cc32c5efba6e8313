"""The grammar of Weft's SQL, in the notation of `railroad`, and the page that shows it.

What must hold: the rules say what `weft/sql` reads.  Tests make sentences from them and read each one, and look for
every word that the parser knows.  Settings and options are taken from the parser.
"""

from __future__ import annotations

from collections.abc import Mapping

from railroad import diagram

from weft.expr.types import type_names
from weft.sql import script
from weft.sql.options import Kind
from weft.sql.topics import FROM_KAFKA, TO_KAFKA

SCRIPTS = {
    "script": "{ statement }+ ';' [ ';' ]",
    "statement": "set | stream | table | view | query | drop",
    "set": "'SET' option",
    "stream": "'CREATE' 'STREAM' name [ columns ] 'FROM' ( files | topic ) [ 'WITH' options ]",
    "table": "'CREATE' 'TABLE' name [ columns ] 'FROM' ( files [ 'KEY' names ] | topic 'KEY' names )"
    " [ 'WITH' options ]",
    "view": "'CREATE' 'VIEW' name 'AS' select",
    "query": "'CREATE' 'QUERY' name 'INTO' ( 'PARQUET' folder | topic ) [ 'WITH' options ] 'AS' select",
    "drop": "'DROP' 'QUERY' name",
    "files": "( 'PARQUET' | 'CSV' | 'JSON' ) folder",
    "topic": "'KAFKA' servers 'TOPIC' string [ options ]",
    "columns": "'(' { name type }+ ',' ')'",
    "options": "'(' { option }+ ',' ')'",
    "option": "name '=' value",
    "value": "string | [ '-' ] number | 'TRUE' | 'FALSE' | '(' { string }+ ',' ')' | '(' { string '=' value }+ ',' ')'",
}
QUERIES = {
    "select": "[ with ] branch { unite branch } [ first ]",
    "unite": "'UNION' [ 'ALL' | 'DISTINCT' ] | ( 'EXCEPT' | 'INTERSECT' ) [ 'DISTINCT' ]",
    "with": "'WITH' { name [ names ] 'AS' [ [ 'NOT' ] 'MATERIALIZED' ] '(' select ')' }+ ','",
    "branch": "block | '(' select ')'",
    "values": "'VALUES' { '(' { expression }+ ',' ')' }+ ','",
    "block": "'SELECT' [ 'ALL' | 'DISTINCT' [ 'ON' '(' { expression }+ ',' ')' ] ] outputs from [ where ]"
    " ( window [ group ] [ having ] [ qualify ] | [ group ] [ having ] [ qualify ] [ window ] )",
    "subquery": "values | ( with branch | block ) { unite branch } [ first | 'LIMIT' number ]",
    "outputs": "{ '*' | name '.' '*' | expression [ [ 'AS' ] name ] }+ ','",
    "from": "'FROM' { joined }+ ','",
    "joined": "relation { join }",
    "join": "'CROSS' 'JOIN' ( relation | elements ) | 'NATURAL' [ kind ] 'JOIN' relation"
    " | [ kind ] 'JOIN' relation { join } ( 'ON' expression | 'USING' names [ 'AS' name ] )"
    " | ( 'ASOF' [ near ] | 'LEFT' 'ASOF' ) 'JOIN' relation [ 'MATCH_CONDITION' '(' expression ')' ]"
    " ( 'ON' expression | 'USING' names )"
    " | [ near ] 'JOIN' version ( 'ON' expression | 'USING' names )",
    "near": "'INNER' | 'LEFT' [ 'OUTER' ] | [ 'LEFT' ] ( 'SEMI' | 'ANTI' )",
    "version": "name 'FOR' 'SYSTEM_TIME' 'AS' 'OF' expression [ alias ]",
    "kind": "'INNER' | ( 'LEFT' | 'RIGHT' | 'FULL' ) [ 'OUTER' ] | [ 'LEFT' ] ( 'SEMI' | 'ANTI' )",
    "relation": "( name | [ 'LATERAL' ] '(' ( select | values ) ')' | windows ) [ alias ] [ window ]"
    " | '(' joined ')' [ alias [ window ] ]",
    "elements": "[ 'LATERAL' ] 'UNNEST' '(' expression ')' [ 'WITH' 'ORDINALITY' ] [ alias ]",
    "windows": "( 'TUMBLE' '(' name ',' name | ( 'HOP' | 'CUMULATE' ) '(' name ',' name ',' 'INTERVAL' step )"
    " ',' 'INTERVAL' step ')'",
    "step": "period",
    "alias": "[ 'AS' ] name [ names ]",
    "names": "'(' { name }+ ',' ')'",
    "where": "'WHERE' expression",
    "window": "'WITHIN' ( 'UNBOUNDED' | [ 'INTERVAL' ] length )",
    "length": "period | count unit",
    "unit": "'MICROSECOND' | 'MILLISECOND' | 'SECOND' | 'MINUTE' | 'HOUR' | 'DAY' | 'WEEK'",
    "group": "'GROUP' 'BY' { expression | 'WINDOW' '(' expression ',' period [ ',' period ] ')' }+ ','",
    "having": "'HAVING' expression",
    "qualify": "'QUALIFY' expression",
    "first": "order 'LIMIT' number [ 'OFFSET' number ]"
    " | order [ 'OFFSET' number [ 'ROW' | 'ROWS' ] ] 'FETCH' [ 'FIRST' | 'NEXT' ] number [ 'ROW' | 'ROWS' ] 'ONLY'",
    "order": "'ORDER' 'BY' { expression [ 'ASC' | 'DESC' ] [ 'NULLS' ( 'FIRST' | 'LAST' ) ] }+ ','",
}
EXPRESSIONS = {
    "expression": "{ conjunction }+ 'OR'",
    "conjunction": "{ negation }+ 'AND'",
    "negation": "'NOT' negation | test",
    "test": "comparison { 'ISNULL' | 'NOTNULL' | 'IS' [ 'NOT' ] ( 'NULL' | 'TRUE' | 'FALSE' | 'DISTINCT' 'FROM'"
    " comparison ) }",
    "comparison": "member [ compare ( member | ( 'ANY' | 'SOME' | 'ALL' ) '(' subquery ')' ) ] | rows",
    "compare": "'=' | '==' | '<>' | '!=' | '<' | '<=' | '>' | '>='",
    "rows": "row ( compare row | [ 'NOT' ] 'IN' '(' ( subquery | { row }+ ',' ) ')' )",
    "row": "'(' expression ',' expression ')'",
    "member": "text { [ 'NOT' ] ( between | in | like ) } { ( '~' | '!~' | '~*' | '!~*' ) text }",
    "between": "'BETWEEN' text 'AND' text",
    "in": "'IN' '(' ( subquery | { expression }+ ',' ) ')'",
    "like": "( 'LIKE' | 'ILIKE' ) text [ 'ESCAPE' text ] | 'SIMILAR' 'TO' text",
    "text": "sum { '||' sum }",
    "sum": "product { ( '+' | '-' ) product }",
    "product": "power { ( '*' | '/' | '//' | '%' ) power }",
    "power": "signed { ( '**' | '^' ) signed }",
    "signed": "{ '-' | '+' } primary { part }",
    "part": "'::' type | '.' name | '[' expression ']' | ( '->' | '->>' ) ( primary | '-' number )",
    "primary": "constant | column | call | place | form | case | '(' expression ')' | '(' subquery ')'"
    " | 'EXISTS' '(' subquery ')'",
    "column": "name [ '.' name ] | 'WINDOW' '.' name | ':' name",
    "constant": "string | number | 'TRUE' | 'FALSE' | 'NULL' | 'INTERVAL' [ '-' ] interval"
    " | ( 'DATE' | 'TIMESTAMP' | 'TIMESTAMPTZ' | 'DATETIME' ) string",
    "interval": "length | count ( 'MONTH' | 'QUARTER' | 'YEAR' )",
    "call": "( 'COUNT' '(' '*' ')' | name '(' [ [ 'DISTINCT' ] { expression }+ ',' ] ')' ) [ 'FILTER' '(' where ')' ]",
    "place": "( 'ROW_NUMBER' | 'RANK' | 'DENSE_RANK' ) '(' ')' 'OVER'"
    " '(' [ 'PARTITION' 'BY' { expression }+ ',' ] [ order ] ')'",
    "form": "( 'CAST' | 'TRY_CAST' ) '(' expression 'AS' type ')' | 'EXTRACT' '(' name 'FROM' expression ')'"
    " | 'POSITION' '(' text 'IN' text ')' | ( 'SUBSTRING' | 'SUBSTR' ) '(' expression substring ')'"
    " | 'TRIM' '(' [ ( 'BOTH' | 'LEADING' | 'TRAILING' ) [ expression ] 'FROM' ] expression ')'"
    " | 'IF' '(' expression ',' expression ',' expression ')'",
    "substring": "',' { expression }+ ',' | [ 'FROM' expression ] [ 'FOR' expression ]",
    "case": "'CASE' [ expression ] { 'WHEN' expression 'THEN' expression }+ [ 'ELSE' expression ] 'END'",
}
GRAMMAR = {**SCRIPTS, **QUERIES, **EXPRESSIONS}
OPTIONS: dict[str, Mapping[str, Kind]] = {
    "Settings: SET": script._SETTINGS,
    "Options of a stream: CREATE STREAM ... WITH (...)": script._STREAM_OPTIONS,
    "Options of a table: CREATE TABLE ... WITH (...)": script._TABLE_OPTIONS,
    "Options of a query: CREATE QUERY ... WITH (...)": script._QUERY_OPTIONS,
    "Options of a topic that is read: FROM KAFKA ... TOPIC ... (...)": FROM_KAFKA,
    "Options of a topic that is written: INTO KAFKA ... TOPIC ... (...)": TO_KAFKA,
}


def grammar_page() -> str:
    """All rules, each drawn and written, and all options."""
    lines = [
        "# Grammar",
        "",
        "What a script and a query may say, drawn: follow the line from left to right.",
        "Rounded words are written as they stand, in capital or small letters; boxes are rules of this page or values.",
        "",
        "- `name` is a word, or anything in double quotes or in backticks.",
        "- `string` is text in single quotes, and so are `folder`, `servers` and `period`, such as `'10 minutes'`.",
        "- `count` is a whole number, bare or in single quotes.",
        "",
        "What each part means, and which functions there are, is on the page [What a query may say](sql.md).",
        "Not all that can be drawn can be run: columns must exist, types must fit, and a query joins something.",
        "",
    ]
    for title, rules in (("Scripts", SCRIPTS), ("Queries", QUERIES), ("Expressions", EXPRESSIONS)):
        lines += [f"## {title}", ""]
        for name, rule in rules.items():
            lines += [f"### {name}", "", diagram(rule), "", "```text", f"{name} = {rule}", "```", ""]
    lines += ["## Types", "", ", ".join(f"`{name}`" for name in type_names()) + ".", ""]
    for title, known in OPTIONS.items():
        lines += [f"## {title}", "", "| name | value | for example |", "|---|---|---|"]
        lines += [f"| `{name}` | {kind.words} | `{name} = {kind.example}` |" for name, kind in known.items()]
        lines.append("")
    return "\n".join(lines)
