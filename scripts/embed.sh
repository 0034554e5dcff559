#!/bin/sh
# Prints C or assembler text that embeds a file as a constant (embedded_ROOM_FILE_ext):
#   - a CSV of topo/: an array of its struct, a field per column;
#   - the keys of a plan: the table that sim/plan/plan.h declares;
#   - the commands: a struct commands_command each, whose run is ROOM_NAME_run, and the groups of options;
#   - any other CSV: a `struct base_table` with its cells as texts;
#   - any other file: an array of characters, ended by a NUL.
# An invalid CSV ends the build and names its line.
set -eu
export LC_ALL=C
name=embedded_$(printf '%s' "$1" | tr -c 'A-Za-z0-9' '_')
case $1 in
topo/chips.csv) record=topo_chip ;;
topo/slices.csv) record=topo_slice ;;
sim/plan/plan_keys.csv) record=sim_plan_key ;;
commands/commands.csv | lab/lab_commands.csv) record=commands_command ;;
*.csv) record= ;;
*)
    cat <<END
	.section .rodata
	.global $name
	.type $name, %object
$name:
	.incbin "$1"
	.byte 0
	.size $name, . - $name
	.section .note.GNU-stack, "", %progbits
END
    exit 0
    ;;
esac
awk -v file="$1" -v name="$name" -v record="$record" '
function fail(what) { print file ":" NR ": " what >"/dev/stderr"; failed = 1; exit 1 }

function text(cell) {
    gsub(/\\/, "\\\\", cell)
    gsub(/"/, "\\\"", cell)
    gsub(/\n/, "\\n", cell)
    return "\"" cell "\""
}

# Splits `row` into cell[1..count] by RFC 4180.
function split_row(    quoted) {
    for (count = 0; ; row = substr(row, 2)) {
        quoted = match(row, /^"([^"]|"")*"/)
        if (!quoted) match(row, /^[^,"]*/)
        cell[++count] = quoted ? substr(row, 2, RLENGTH - 2) : substr(row, 1, RLENGTH)
        if (quoted) gsub(/""/, "\"", cell[count])
        row = substr(row, RLENGTH + 1)
        if (row == "") return
        if (substr(row, 1, 1) != ",") fail("text beside a quote")
    }
}

function is_number(value) { return value ~ /^[0-9]+(\.[0-9]+)?(e-?[0-9]+)?$/ }
function is_shape(value) { return value ~ /^[0-9]+x[0-9]+x[0-9]+$/ }

# A field of a record: a word of an enum, a shape, a number or a text. An empty cell is 0, or an empty text.
function put_field(column, value, is_text,    sides) {
    if (value == "" && !is_text) return
    if (column == "kind") value = "TOPO_" toupper(value)
    else if (is_shape(value)) {
        split(value, sides, "x")
        value = "{" sides[1] ", " sides[2] ", " sides[3] "}"
        if (column == "host_shape") printf ".chips_per_host = %d, ", sides[1] * sides[2] * sides[3]
    } else if (is_text) value = text(value)
    if (column ~ /^[xyz]$/) column = "shape[" index("xyz", column) - 1 "]"
    if (column ~ /^wrap_[xyz]$/) column = "wrap[" index("xyz", substr(column, 6)) - 1 "]"
    printf ".%s = %s, ", column, value
}

function put_records(    r, i) {
    printf "#include \"topo/topo.h\"\nextern const struct %s %s[];\nconst struct %s %s[] = {\n", record, name, record, name
    for (r = 1; r < rows; r++) {
        printf "    {"
        for (i = 1; i <= columns; i++) put_field(cells[0, i], cells[r, i], is_text[i])
        print "},"
    }
    printf "};\nextern const int %s_count;\nconst int %s_count = %d;\n", name, name, rows - 1
}

# A text member; NULL if the cell is empty, but of a column of charts.
function put_text(member, value, in_charts) {
    if (value != "" || (in_charts && member ~ /^chart/)) printf ".%s = %s, ", member, text(value)
}

# "text list": the kinds of JSON that may give the key. "none=SIM_A all=SIM_B+": its words; + is beyond gin.
function put_kinds(value,    kinds, i) {
    split(value, kinds, " ")
    for (i = 1; i in kinds; i++) printf "%s1u << BASE_JSON_%s", (i == 1 ? ".json = " : " | "), json_kind[kinds[i]]
    printf ", "
}

function put_words(value,    words, i, at, beyond) {
    if (value == "") return
    printf ".words = {"
    split(value, words, " ")
    for (i = 1; i in words; i++) {
        beyond = sub(/\+$/, "", words[i])
        at = index(words[i], "=")
        printf "{%s, %s, %s}, ", text(substr(words[i], 1, at - 1)), substr(words[i], at + 1), (beyond ? "true" : "false")
    }
    printf "}, "
}

function put_key(r,    i, cell) {
    for (i = 1; i <= columns; i++) cell[cells[0, i]] = cells[r, i]
    printf "    [SIM_%s] = {", cell["key"]
    for (i = 1; i in texts; i++) put_text(texts[i], cell[texts[i]], cell["chart.place"])
    for (i = 1; i in numbers; i++) if (cell[numbers[i]] != "") printf ".%s = %s, ", numbers[i], cell[numbers[i]]
    put_kinds(cell["json"])
    put_words(cell["words"])
    if (cell["field"] != "") printf "FIELD(%s), ", cell["field"]
    printf ".type = SIM_OF_%s},\n", toupper(cell["type"])
}

function put_keys(    r) {
    split("name feature option.name option.value option.help option.fallback example fallback fallback_scanned " \
          "fallback_on_local t5x_lacks chart.heading chart.before chart.after", texts, " ")
    split("default_unsaid gin_binds low high chart.place", numbers, " ")
    json_kind["text"] = "STRING"; json_kind["number"] = "NUMBER"
    json_kind["list"] = "ARRAY"; json_kind["object"] = "OBJECT"
    print "#include \"sim/plan/plan.h\"\n#define FIELD(member) \\"
    print "    .offset = offsetof(struct sim_plan, member), .size = sizeof(((struct sim_plan *)0)->member)"
    print "const struct sim_plan_key sim_plan_keys[SIM_KEY_COUNT] = {"
    for (r = 1; r < rows; r++) put_key(r)
    print "};"
}

# A row of a command is a member of its struct, an option, or a group of options (@common).
function put_commands(    r, room, member, names, groups, i, is_new) {
    split("summary usage alias examples endings first_words", names, " ")
    for (i in names) is_member[names[i]] = "text"
    split("alias_run positional_limit computes warns writes_out input", names, " ")
    for (i in names) is_member[names[i]] = "value"
    split("", names, " ")
    i = 0
    room = file
    sub(/\/.*/, "", room)
    print "#include \"commands/commands.h\""
    for (r = 1; r < rows; r++) {
        is_new = cells[r, 1] != cells[r - 1, 1]
        if (is_new && r > 1) print "};"
        if (is_new) { names[++i] = cells[r, 1]; printf "static const struct base_option options_%d[] = {\n", i }
        member = cells[r, 2]
        if (member in is_member) members[i] = members[i] "." member " = " \
            (is_member[member] == "text" ? text(cells[r, 3]) : cells[r, 3]) ", "
        else if (member == "--*") print "    {0},"
        else printf "    {%s, %s, %s, %s},\n", text(member), null_or_text(3, r), null_or_text(4, r), null_or_text(5, r)
    }
    print "};"
    for (i = 1; i in names; i++) {
        member = ".options = options_" i ", .option_count = BASE_COUNT(options_" i "), " members[i]
        if (names[i] ~ /^@/) { groups = groups "    {.name = " text(names[i]) ", " member "},\n"; continue }
        printf "extern commands_function %s_%s_run;\nconst struct commands_command %s_%s = {.name = %s, .run = %s_%s_run, %s};\n",
            room, names[i], room, names[i], text(names[i]), room, names[i], member
    }
    if (groups == "") return
    printf "const struct commands_command commands_groups[] = {\n%s    {.name = NULL}};\n", groups
}

function null_or_text(column, r) { return cells[r, column] == "" ? "NULL" : text(cells[r, column]) }

function put_table(    r, i) {
    print "#include \"base/base.h\"\nstatic const char *const cells[] = {"
    for (r = 0; r < rows; r++)
        for (i = 1; i <= columns; i++) print text(cells[r, i]) ","
    sub(/.*\//, "", file)
    printf "};\nextern const struct base_table %s;\n", name
    printf "const struct base_table %s = {\"%s\", cells, %d, %d};\n", name, file, columns, rows - 1
}

{
    sub(/\r$/, "")
    row = open ? row "\n" $0 : $0
    quotes = row
    open = gsub(/"/, "", quotes) % 2
    if (open || row == "") next
    split_row()
    if (!rows) columns = count
    if (count != columns) fail(count " cells under a header of " columns)
    for (i = 1; i <= count; i++) {
        cells[rows + 0, i] = cell[i]
        if (rows && cell[i] != "" && !is_number(cell[i]) && !is_shape(cell[i])) is_text[i] = 1
    }
    rows++
}

END {
    if (failed) exit 1
    if (open) fail("a quote is opened and never closed")
    if (record == "sim_plan_key") put_keys()
    else if (record == "commands_command") put_commands()
    else if (record) put_records()
    else put_table()
}' "$1"
