#!/bin/sh
# layers.sh [BUILD]: checks the rules of the folder structure, and prints each violation as FILE:LINE: WHAT.
#   - A room includes only itself and rooms before it, by paths from the root, and of another room only its public
#     header.
#   - Files of a room do not include each other in a circle; NAME.c and NAME.h count as one.
#   - Only one file or room includes a given outside library.
#   - Heap, files, exit, clock and stdout are used only in their own files.
#   - A file name is unique in the tree.
#   - No file has more than 500 lines, except tables and tests.
#   - No room has a mutable global, except those listed below.
#   - With the objects in BUILD: non-static names have the room's prefix; and files do not call each other in a circle,
#     except for the recursions listed below.
set -eu
build=${1:-}
export LC_ALL=C
violations=$(mktemp)
trap 'rm -f "$violations"' EXIT

sources=$(find base topo model sim tuner exec plots reports serve commands lab tests meshwright.c -name '*.[ch]' 2>/dev/null | sort)

# shellcheck disable=SC2086
awk '
function fail(what) { print FILENAME ":" FNR ": " what }

BEGIN {
    split("base topo model model/gin model/import sim/partition sim/compile sim/network sim/pipeline sim/machine sim/plan sim/cost sim/program sim/predict tuner exec plots reports serve commands lab", rooms, " ")
    for (i in rooms) order[rooms[i]] = i
    last = 100 # meshwright.c and tests may include any room

    split("assert ctype errno fenv float inttypes limits locale math setjmp signal stdalign stdarg stdatomic stdbool " \
          "stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype " \
          "dirent dlfcn malloc fcntl fnmatch glob libgen poll pthread sched spawn strings termios unistd " \
          "arpa/inet ifaddrs net/if netinet/in sys/socket sys/file sys/ioctl sys/mman sys/prctl sys/resource sys/select sys/stat sys/time sys/types sys/uio sys/wait", headers, " ")
    for (i in headers) standard[headers[i] ".h"] = 1

    door["cjson/cJSON.h"] = "base/json.c"
    door["pcre2.h"] = "model/pattern.c"
    door["yaml.h"] = "model/import/yaml_reader.c"
    door["cairo.h"] = door["cairo-svg.h"] = door["cairo-pdf.h"] = door["cairo-png.h"] = "plots/canvas.c"
    door["cblas.h"] = "exec/gemm.c"
    door["oneapi/dnnl/dnnl.h"] = door["omp.h"] = "exec/onednn.c"
    door["zlib.h"] = "exec/gzip.c"
    door["mpi.h"] = "exec/comm.c"
    door["microhttpd.h"] = door["sys/random.h"] = "serve/http.c"
    door["sys/timerfd.h"] = "base/process.c" # ticks for a program that is waited for: it need not know the time
    gsl_door = "sim/predict/least_squares.c"
    for (i in door) doors[door[i]] = 1
    doors[gsl_door] = 1

    shared["commands/table.h"] = 1 # the lab answers in the same tables

    heap = "malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign"
    files = "fopen|freopen|fdopen|open|creat|tmpfile|mkstemp|rename|remove|unlink|realpath"
    people = "printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|quick_exit"
    clock = "time|clock|clock_gettime|gettimeofday|localtime|gmtime|isatty"
    chance = "rand|srand|random|srandom|drand48|getenv|setlocale"
}

# Comments and literals do not count. A comment may go over several lines.
function code_of(line,    out, at) {
    out = ""
    while (line != "") {
        if (in_comment) {
            at = index(line, "*/")
            if (!at) return out
            in_comment = 0
            line = substr(line, at + 2)
        } else if (match(line, /^"([^"\\]|\\.)*"/) || match(line, /^\047([^\047\\]|\\.)*\047/)) {
            out = out "\"\""
            line = substr(line, RLENGTH + 1)
        } else if (substr(line, 1, 2) == "//") {
            return out
        } else if (substr(line, 1, 2) == "/*") {
            in_comment = 1
            line = substr(line, 3)
        } else {
            out = out substr(line, 1, 1)
            line = substr(line, 2)
        }
    }
    return out
}

# The folder, which may be a room inside a room: "sim/partition".
function room_of(path) {
    if (!index(path, "/")) return ""
    sub(/\/[^\/]*$/, "", path)
    return path
}

function public_header(other,    name) {
    name = other
    sub(/.*\//, "", name)
    return other "/" name ".h"
}

function check_own_include(path,    other) {
    other = room_of(path)
    if (room == "tests" || room ~ /^tests\//) return
    if (other == "library" && (room == "" || room == "library")) return # the door that others come through
    if (!(other in order)) { fail("\"" path "\" is not written from the root, as \"room/file.h\""); return }
    if (order[other] + 0 > rank + 0) fail(room " may not include " other ", which comes after it")
    if (other != room && room != "lab" && path != public_header(other) && !(path in shared)) # the lab looks inside
        fail("\"" path "\" is private to " other "; its public header is " public_header(other))
}

function check_library_include(path) {
    if (path in standard || room ~ /^tests/) return
    if (path ~ /^gsl\//) { if (FILENAME != gsl_door) fail("<" path "> is included only by " gsl_door); return }
    if (!(path in door)) fail("<" path "> has no door: name the one file that includes it in scripts/layers.sh")
    else if (FILENAME != door[path]) fail("<" path "> is included only by " door[path])
}

# A call of one of the names: not a member, not part of a longer name.
function calls(names) { return code ~ ("(^|[^A-Za-z0-9_.>])(" names ")[ \t]*\\(") }

function check_calls() {
    if (room ~ /^tests/ || room == "") return
    # A library hands out and takes back memory of the heap, and jumps over its frames are not allowed: its door may use it.
    if (room != "base" && !(FILENAME in doors) && calls(heap)) fail("memory comes from the arena that is passed in (base_alloc)")
    if (room != "base" && calls(files)) fail("files are opened through base/ alone")
    # base/process.c ends the copy of the process that could not become another program; base/own_network.c, one that tries.
    speaks = FILENAME == "exec/rank_main.c" || FILENAME == "base/process.c" || FILENAME == "base/own_network.c" || FILENAME == "base/answerer.c"
    if (!speaks && (calls(people) || code ~ /(^|[^A-Za-z0-9_])(stdout|stderr)([^A-Za-z0-9_]|$)/)) fail("only meshwright.c and meshwright-rank print and exit")
    if (room != "exec" && calls(clock)) fail("only meshwright.c and exec/ look at the clock, and only meshwright.c at the terminal")
    if (calls(chance)) fail("a result may depend on its input alone: base_random has seeds, options have values")
}

FNR == 1 {
    in_comment = 0
    room = room_of(FILENAME)
    rank = room in order ? order[room] : last
    name = FILENAME
    sub(/.*\//, "", name)
}

{ code = code_of($0) }
code ~ /^[ \t]*#[ \t]*include/ {
    path = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*["<]/, "", path)
    kind = index($0, "<") && index(code, "<") ? "library" : "own"
    sub(/[">].*/, "", path)
    if (kind == "own") check_own_include(path)
    else check_library_include(path)
    next
}
{ check_calls() }
' $sources >>"$violations"

# One name, one file: a bare name in a message or a review is enough. A room's data and the scripts count, test data do not.
find . \( -path ./build -o -path ./.git -o -path ./tests/data -o -path ./tests/golden \) -prune -o -type f \
    \( -name '*.[ch]' -o -name '*.csv' -o -name '*.json' -o -name '*.sh' \) -print | sed 's,^\./,,' | sort |
    awk '{ name = $0; sub(/.*\//, "", name); if (name in seen) print $0 ":1: its name is taken by " seen[name]; else seen[name] = $0 }' >>"$violations"

for source in $sources; do
    case $source in tests/* | *_table.c) continue ;; esac
    lines=$(wc -l <"$source")
    [ "$lines" -le 500 ] || echo "$source:500: $lines lines: one idea a file; a table is called *_table.c" >>"$violations"
done

# Circles: tsort names the files of each.
for source in $sources; do
    unit=${source%.*}
    sed -n 's/^[ \t]*#[ \t]*include "\([^"]*\)\.h".*/\1/p' "$source" | while read -r other; do
        [ "${unit%/*}" = "${other%/*}" ] && [ "$unit" != "$other" ] && echo "$unit $other"
    done || true
done | sort -u | tsort 2>&1 >/dev/null | sed -n 's/^tsort: \([^-].*\)$/\1:1: includes in a circle with the files beside it/p' |
    grep -v 'input contains a loop' >>"$violations" || true

# Prefixes, from the symbols that other objects can see. A room inside a room has the prefix of the outer one.
for room in base topo model model/gin model/import sim/partition sim/compile sim/network sim/pipeline sim/machine sim/plan sim/cost sim/program sim/predict tuner exec plots reports serve commands lab; do
    [ -n "$build" ] && [ -d "$build/$room" ] || continue
    for object in "$build/$room"/*.o; do
        source=${object#"$build"/}
        source=${source%.o}.c
        [ -e "$source" ] || continue
        nm -g --defined-only "$object" | awk -v room="${room%%/*}" -v source="$source" '
            source == "exec/rank_main.c" && $3 == "main" { next }
            source == "lab/lab_table.c" && $3 == "commands_all" { next } # linked in the place of that of commands/
            $3 !~ "^" room "_" { print source ":1: " $3 " is seen outside: make it static, or give it the prefix " room "_" }' >>"$violations"
    done
done

# Calls in a circle, from the symbols that an object defines and those that it asks for. Two recursions go over files: a
# contraction within groups of devices is placed as a contraction, and a command may run another command.
if [ -n "$build" ]; then
    # shellcheck disable=SC2086
    nm -g -P -A $(echo "$sources" | sed -n 's/\.c$/.o/p' | grep -v '^tests/' | sed "s,^,$build/,") 2>/dev/null | awk -v build="$build/" '
        { file = substr($1, length(build) + 1); sub(/(\[.*\])?:$/, "", file); sub(/\.o$/, "", file) }
        $2 == "sim_place_dot" && file == "sim/partition/contraction_by_labels" { next }
        $2 == "commands_execute" { next }
        $3 == "U" { asks[++count] = file; what[count] = $2; next }
        { defined[$2] = file }
        END { for (i = 1; i <= count; i++) if (what[i] in defined && defined[what[i]] != asks[i]) print asks[i], defined[what[i]] }' |
        sort -u | tsort 2>&1 >/dev/null | sed -n 's/^tsort: \([^-].*\)$/\1.c:1: calls in a circle with the files beside it/p' |
        grep -v 'input contains a loop' >>"$violations" || true
fi

# Mutable globals are shared by all threads, but sessions are independent: only the objects listed here have one, each
# for its reason.
if [ -n "$build" ]; then
    # base/file      unfinished files, which a signal handler removes; locked, each owned by its thread
    # base/process   the running child: signals are sent to the process, not to a session
    # plots/canvas   functions of Cairo, loaded once under a lock
    # exec/comm, exec/heartbeat, exec/rank_main   a rank of MPI is a process
    shared=" base/file base/process plots/canvas exec/comm exec/heartbeat exec/rank_main "
    # shellcheck disable=SC2086
    nm -f sysv -A $(echo "$sources" | sed -n 's/\.c$/.o/p' | grep -v -e '^tests/' -e '^meshwright\.o' | sed "s,^,$build/,") 2>/dev/null |
        awk -F'|' -v build="$build/" -v shared="$shared" '
            $4 ~ /OBJECT/ && ($7 ~ /^\.(data|bss|tdata|tbss)/ && $7 !~ /^\.data\.rel\.ro/ || $7 ~ /COM/) {
                split($1, place, ".o:")
                unit = substr(place[1], length(build) + 1)
                gsub(/ /, "", place[2])
                if (!index(shared, " " unit " "))
                    print unit ".c:1: " place[2] " is a variable of the whole process: pass it, or make it const" }' >>"$violations"
fi

if [ -s "$violations" ]; then
    cat "$violations"
    echo "layers: $(wc -l <"$violations") violations"
    exit 1
fi
echo "layers: $(echo "$sources" | wc -w) files keep to the order"
