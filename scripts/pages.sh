#!/bin/sh
# pages.sh PROGRAM [FOLDER]: makes a page of every kind of answer, and has Chromium open each as people would (tests/browser.py).
# in three windows; with FOLDER in twelve, and the pages stay there with a picture of each. Without Chromium it says so and looks at nothing.
set -eu
program=$(realpath "$1")
kept=${2:-}
browser=$(realpath tests/browser.py)
examples=$(realpath examples)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -z "$kept" ] || { mkdir -p "$kept"; kept=$(realpath "$kept"); }
cd "$work"
cp -R "$examples" examples
# A name that would be markup, a path and a script, if anybody let it.
sed 's|"t5_1_0_11B",|"t5_1_0_11B", "params_axes_names_override": [["<script>alert(1)</script>\&\\"]]></style>", null]],|' \
    examples/t5_11b_v4_512.json >hostile.json

make_page() { # NAME ARGUMENT...
    name=$1
    shift
    status=0
    "$program" "$@" --out "$name.html" >/dev/null 2>"$name.err" || status=$?
    case $status in 0 | 4) ;; *) echo "pages: $name: exit $status: $(cat "$name.err")" && failed=$((failed + 1)) ;; esac
}

passed=0
failed=0
make_page predict predict examples/t5_11b_v4_512.json
make_page too_large predict examples/t5_11b_v4_512.json --model-parallel-submesh 2,2,2,1
make_page hostile predict hostile.json
make_page compare compare examples/t5_11b_v4_512.json hostile.json examples/wmt_two_way.gin
printf "include 't5x/examples/decoder_only/models/base.gin'\n# meshwright: topology = v4-8\n# meshwright: batch_size = 64\n%s\n" \
    "TASK_FEATURE_LENGTHS = {'inputs': 256, 'targets': 256}" >warned.gin
make_page warned predict warned.gin
make_page run run examples/tiny_local_4.json --in-process --steps 2
"$program" run examples/tiny_local_4.json --in-process --steps 2 --out run.json >/dev/null
make_page beside report run.json
make_page tune tune --model t5_1_0_11B --topology v4-512 --batch-size 896 --optimizer adamw
make_page ten_thousand tune --model t5_1_0_11B --topology v4-512 --batch-size auto --optimizer adamw --no-bounds \
    --num-microbatches 1,2,4,8,16
make_page sweep sweep examples/tpu_v4_tuning.csv
make_page infer infer examples/tiny_infer.json --data examples/tiny_infer.jsonl --in-process
make_page decode predict --model llama3_8b --topology v5e-8 --model-parallel-submesh 2,4,1,1 --batch-size 32 \
    --task-feature-lengths 1024 --step decode
make_page generate predict --model t5_1_0_11B --topology v5e-64 --model-parallel-submesh 4,4,1,1 --batch-size 32 \
    --task-feature-lengths 512,128 --step generate
make_page serving tune --model t5_1_0_11B --topology v5e-64 --batch-size auto --task-feature-lengths 512,128 --max-latency-s 2
make_page stages tune --model gpt3_175b --topology a100-80g:32x8 --batch-size 256 --software megatron --pipeline-stages auto \
    --task-feature-lengths 2048
make_page losses_do_not_fit tune --model t5_1_1_base --topology v4-64 --batch-size 4096 --beyond-t5x
make_page nothing_fits tune --model t5_1_0_11B --topology v4-8 --batch-size 896 --optimizer adamw
"$program" tune --model t5_1_0_11B --topology v4-512 --batch-size auto --optimizer adamw --detail --out tuned.json >/dev/null

# All charts together, each as its SVG file.
printf '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>charts</title><body style="background:#fff">' >charts.html
put_chart() { # KIND INPUT...
    if "$program" plot "$@" --out chart.svg >/dev/null 2>chart.err; then
        printf '<figure style="margin:8px 0;max-width:100%%;overflow-x:auto" class="scrolls" tabindex="0">' >>charts.html
        tail -n +2 chart.svg >>charts.html
        printf '</figure>' >>charts.html
    else
        echo "pages: plot $*: $(cat chart.err)"
        failed=$((failed + 1))
    fi
}
for kind in memory time operations roofline batch scaling mesh; do put_chart $kind examples/t5_11b_v4_512.json; done
put_chart mesh examples/tiny_local_4.json
sed 's/\[4, 2, 2, 1\]/[2, 2, 2, 1]/' examples/t5_11b_v4_512.json >half.json
put_chart difference examples/t5_11b_v4_512.json half.json
for kind in pareto sensitivity; do put_chart $kind tuned.json; done

# A browser learns nothing from sanitizers, and programs under them are too slow for the live page's limits.
case $program in */asan/*) echo "pages: no browser opens the pages under sanitizers" && looks= ;; *) looks=yes ;; esac
if [ -z "$looks" ]; then
    :
elif command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then
    status=0
    # shellcheck disable=SC2046
    timeout 3600 python3 "$browser" *.html $(if [ -n "$kept" ]; then printf -- '--pictures %s' "$kept"; else printf -- --quick; fi) >found || status=$?
    cat found
    bad=$(grep -o '^[^ ]*\.html ' found | sort -u | wc -l)
    [ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    passed=$(($(echo *.html | wc -w) - bad))
    failed=$((failed + bad))
else
    echo "pages: there is no Chromium here, so that no page was opened (apt-get install chromium)"
fi
# The page of serve: its knobs turned in Chromium, hostile requests to its server.
status=0
[ -z "$looks" ] || timeout 1800 python3 "${browser%/*}/live_browser.py" "$program" ${kept:+--pictures "$kept"} || status=$?
case $status in 0 | 77) passed=$((passed + 1)) ;; *) failed=$((failed + 1)) ;; esac
[ -z "$kept" ] || cp -- *.html "$kept"
printf '%-24s %d passed, %d failed\n' pages: "$passed" "$failed"
[ "$failed" -eq 0 ]
