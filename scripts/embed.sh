#!/bin/sh
# Prints C or assembler text that embeds a file as a constant (embedded_ROOM_FILE_ext):
#   - a CSV of topo/: an array of its struct, a field per column;
#   - a CSV of an enumeration: a header, FILE.h, with the enum, the rows of its table and its names; of some others
#     rows and names alone;
#   - the commands: a struct commands_command each, whose run is ROOM_NAME_run, and the groups of options;
#   - any other CSV: a `struct base_table` with its cells as texts;
#   - any other file: an array of characters, ended by a NUL; of a script without indents and lines of comment.
# An invalid CSV ends the build and names its line.
set -eu
export LC_ALL=C
name=embedded_$(printf '%s' "$1" | tr -c 'A-Za-z0-9' '_')
case $1 in
topo/chips.csv) record=topo_chip ;;
topo/slices.csv) record=topo_slice ;;
topo/jax_rings.csv) rows=JAX_RINGS texts=device_kind ;;
topo/jax_contiguous.csv) rows=JAX_CONTIGUOUS ;;
topo/t5x_default_meshes.csv) rows=T5X_DEFAULT_MESHES texts="kinds[0] kinds[1]" ;;
model/functions.csv) record=model_function prefix=MODEL_ last=MODEL_FUNCTION_COUNT ;;
model/axes.csv) record=model_axis prefix=MODEL_ last=MODEL_AXIS_COUNT ;;
model/sizes.csv) record=model_size prefix=MODEL_ last=MODEL_SIZE_COUNT ;;
model/traits.csv) record=model_trait prefix=MODEL_TRAIT_ last=MODEL_TRAIT_COUNT ;;
model/config_keys.csv) record=key prefix= last=KEY_COUNT ;;
sim/machine/profile_constants.csv) record=sim_constant prefix=SIM_ last=SIM_CONSTANT_COUNT ;;
sim/machine/nccl.csv) record=sim_nccl_constant prefix=SIM_ last=SIM_NCCL_COUNT remarks=kind ;;
sim/compile/passes.csv) record=sim_pass prefix=SIM_PASS_ last=SIM_PASS_COUNT remarks=compiler ;;
plots/colours.csv) record=plots_colour prefix=PLOTS_ last=PLOTS_COLOUR_COUNT ;;
model/huggingface_families.csv) rows=HUGGINGFACE_FAMILIES kept="model_type line attention_bias own_bias fixed_bias activation expert_keys" ;;
model/dimensions.csv) rows=DIMENSIONS ;;
model/gradients.csv) rows=GRADIENTS texts="operands helper_operands" ;;
model/zoo_families.csv) rows=ZOO_FAMILIES texts="family ours" ;;
model/huggingface_unrun.csv) rows=HUGGINGFACE_UNRUN ;;
model/import/import_marks.csv) rows=IMPORT_MARKS kept="software a b" ;;
model/config_checks.csv) rows=CONFIG_CHECKS texts=remedy ;;
model/adafactor_options.csv) rows=ADAFACTOR_OPTIONS ;;
model/rule_sets.csv) rows=RULE_SETS texts=rules ;;
model/factor_rules.csv) rows=FACTOR_RULES texts="logical kind" ;;
model/optimizers.csv) record=model_optimizer prefix=MODEL_ last=MODEL_OPTIMIZER_COUNT ;;
model/dtypes.csv) record=model_dtype prefix=MODEL_ last=MODEL_DTYPE_COUNT ;;
model/modules.csv) record=model_module prefix=MODEL_MODULE_ last=MODEL_MODULE_COUNT ;;
model/remat_policies.csv) rows=REMAT_POLICIES texts=tensors ;;
model/gin/gin_macros.csv) rows=GIN_MACROS texts="macro class parameter" ;;
model/gin/gin_networks.csv) rows=GIN_NETWORKS texts="module architecture model wrapper config remark" ;;
model/gin/gin_sizes.csv) rows=GIN_SIZES ;;
model/gin/gin_fields.csv) rows=GIN_FIELDS ;;
model/gin/gin_parts.csv) rows=GIN_PARTS texts="class parameter taken" ;;
exec/row_functions.csv) rows=ROW_FUNCTIONS kept=operands prefix=MODEL_ ;;
exec/example_functions.csv) rows=EXAMPLE_FUNCTIONS prefix=MODEL_ ;;
sim/compile/pass_settings.csv) fields=PASS_SETTINGS ;;
sim/plan/gin_unheld.csv) rows=GIN_UNHELD texts="class parameter taken effect" ;;
sim/pipeline/pipelines.csv) rows=PIPELINES texts="software schedule_words" ;;
sim/machine/constants.csv) rows=PLATFORM_CONSTANTS texts="platform kind source" ;;
sim/machine/gpu_constants.csv) rows=GPU_CONSTANTS kept="chip software" texts="kind source" ;;
sim/machine/nccl_trees.csv) rows=NCCL_TREES remarks=kind ;;
sim/machine/nccl_chunks.csv) rows=NCCL_CHUNKS remarks=kind ;;
sim/machine/nccl_limits.csv) rows=NCCL_LIMITS texts=chip remarks=kind ;;
sim/machine/gpu_tiles.csv) rows=GPU_TILES remarks=kind ;;
sim/machine/gpu_attention.csv) rows=GPU_ATTENTION texts="library chip" remarks=kind ;;
sim/plan/plan_keys.csv) record=sim_key prefix=SIM_ last=SIM_KEY_COUNT ;;
commands/commands.csv | lab/lab_commands.csv) record=commands_command ;;
*.csv) record= ;;
*)
    printf '\t.section .rodata\n\t.global %s\n\t.type %s, %%object\n%s:\n' "$name" "$name" "$name"
    case $1 in
    *.js | *.css) awk '{ sub(/^ +/, "") } /^\/\*.*\*\/$/ || /^$/ { next } { gsub(/[\\"]/, "\\\\&"); print "\t.ascii \"" $0 "\\n\"" }' "$1" ;;
    *) printf '\t.incbin "%s"\n' "$1" ;;
    esac
    printf '\t.byte 0\n\t.size %s, . - %s\n\t.section .note.GNU-stack, "", %%progbits\n' "$name" "$name"
    exit 0
    ;;
esac
awk -v file="$1" -v name="$name" -v record="${record-}" -v prefix="${prefix-}" -v last="${last-}" -v remarks="${remarks-}" -v rows_of="${rows-}" -v texts="${texts-}" -v kept="${kept-}" -v fields="${fields-}" '
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

# ---- enumerations: an enum of the column key, and the rows of its table as ENUM_ROWS, for an initializer ----

function is_in(word, list) { return index(" " list " ", " " word " ") > 0 }

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

# Columns: the key (without one, the name in capitals); name and other texts (name, kept ones and those of charts even where
# they are empty); words; remarks, of which meaning becomes a comment; others are values.
function put_member(column, value, is_charted) {
    if ((column ~ /^(key|meaning|since|what|source)$/ && !is_in(column, texts)) || column == remarks) return
    if (column == "constant" || column == "how") value = (column == "how" ? "" : "SIM_") toupper(value)
    if (column == "words" && record == "sim_key") { put_words(value); return }
    if (column == "field") { if (value != "") printf "FIELD(%s), ", value; return }
    if (column ~ /^(name|feature|option\.|example|fallback|t5x_lacks|chart\.[hba])/) {
        if (value != "" || column == "name" || (is_charted && column ~ /^chart/)) printf ".%s = %s, ", column, text(value)
    } else if (is_in(column, kept)) printf ".%s = %s, ", column, text(value)
    else if (value == "") return
    else if (is_in(column, texts)) printf ".%s = %s, ", column, text(value)
    else printf "%s%s = %s, ", (column ~ /^\[/ ? "" : "."), column, value
}

# The column name alone, as texts.
function put_names(of,    r, i) {
    for (i = 1; i <= columns && cells[0, i] != "name"; i++) continue
    if (i > columns) return
    printf "#define %s_NAMES", of
    for (r = 1; r < rows; r++) printf " \\\n    %s,", text(cells[r, i])
    print ""
}

# The rows alone, of a table without an enum; a key is a place in the array.
function put_rows(    r, i) {
    put_names(rows_of)
    printf "#define %s_COUNT %d\n#define %s_ROWS", rows_of, rows - 1, rows_of
    for (r = 1; r < rows; r++) {
        printf " \\\n    %s{", (cells[0, 1] == "key" ? "[" prefix cells[r, 1] "] = " : "")
        for (i = 1; i <= columns; i++) put_member(cells[0, i], cells[r, i], 0)
        printf "},"
    }
    print ""
}

# One struct: a row is a member, setting, and its value.
function put_fields(    r, i, of) {
    for (i = 1; i <= columns; i++) of[cells[0, i]] = i
    printf "#define %s", fields
    for (r = 1; r < rows; r++) printf " \\\n    .%s = %s,", cells[r, of["setting"]], cells[r, of["value"]]
    print ""
}

function put_enum(    r, i, of) {
    for (i = 1; i <= columns; i++) of[cells[0, i]] = i
    for (r = 1; r < rows; r++) keys[r] = prefix ("key" in of ? cells[r, of["key"]] : toupper(cells[r, of["name"]]))
    printf "/* Made of %s. */\n#ifndef EMBEDDED_%s\n#define EMBEDDED_%s\nenum %s {\n", file, toupper(record), toupper(record), record
    for (r = 1; r < rows; r++)
        printf "    %s,%s\n", keys[r], (cells[r, of["meaning"]] == "" ? "" : " /* " cells[r, of["meaning"]] " */")
    printf "    %s\n};\n#define %s_ROWS", last, toupper(record)
    for (r = 1; r < rows; r++) {
        printf " \\\n    [%s] = {", keys[r]
        for (i = 1; i <= columns; i++) put_member(cells[0, i], cells[r, i], cells[r, of["chart.place"]])
        printf "},"
    }
    print ""
    put_names(toupper(record))
    print "#endif"
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
    if (last) put_enum()
    else if (rows_of) put_rows()
    else if (fields) put_fields()
    else if (record == "commands_command") put_commands()
    else if (record) put_records()
    else put_table()
}' "$1"
