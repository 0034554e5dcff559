#!/bin/sh
# mutants.sh FOLDER [NAME] | --check: removes one family of constraints, cuts or bounds at a time from a copy of the
# search, and runs its tests: at least one must fail. NAME selects mutants by prefix. Copies are built in FOLDER and
# never installed. The exit status is the verdict. --check builds nothing, and lists texts that do not occur exactly
# once.
set -eu
folder=$1
only=${2:-}
export LC_ALL=C
root=$PWD

# NAME|FILE|OLD TEXT|NEW TEXT|TEST PROGRAM|TESTS. The old text is literal and must occur exactly once.
mutants() {
    cat <<'END'
cuts of larger policies|tuner/saved_choice.c|i < c->choice_count && which == AND_ALL_LARGER; i++)|i < c->choice_count && which < ALONE; i++)|test_tuner|remat_*
weights of saved tensors|tuner/saved_choice.c|weight += c->bytes[name];|weight += 0 * c->bytes[name];|test_tuner|remat_*
prices of recomputation|tuner/policy_orders.c|return (struct taken){price->step_s + waited_s, waited_s > 0};|return (struct taken){c->all_s + waited_s, waited_s > 0};|test_tuner|remat_*
transfers to the host|tuner/policy_orders.c|waited_s = fmax(0, moved_s - price->forward_s) + fmax(0, moved_s - price->backward_s);|waited_s = 0 * moved_s;|test_tuner|remat_*
tensors that lower the peak|tuner/saved_choice.c|return *fits ? BASE_OK : lower(c, &lowest, lowest_bytes, fits);|return BASE_OK;|test_tuner|remat_*
weight of the train state|tuner/saved_choice.c|return c->s->limit_bytes - c->state_bytes;|return c->s->limit_bytes;|test_tuner|remat_*
one policy of a family is ranked|tuner/ranking.c|if (other < *count) remove_plan(plans, count, other);|if (*count < other) remove_plan(plans, count, other);|test_tuner|remat_*
other orders of a policy|tuner/policy_orders.c|return known == orders ? slowest : (double)INFINITY;|return known ? slowest : (double)INFINITY;|test_tuner|remat_*
layer's input is saved|tuner/saved_choice.c|(struct model_saved){(saved & ~host) \| input_name, host, 0});|(struct model_saved){saved & ~host, host, 0});|test_tuner|remat_*
of equal policies the one that offloads least|tuner/policy_orders.c|host_bytes_of(c, policy) > o->best_host_bytes + 1));|host_bytes_of(c, policy) < o->best_host_bytes + 1));|test_tuner|remat_*
dimensions divide, as JAX demands|tuner/rule_codings.c|if (spec[d] && coding->classes[c].divides[d] % topo_axes_product(mesh, spec[d])) return false;|if (spec[d] && coding->classes[c].divides[d] < 0 * mesh->count) return false;|test_search_properties|no_bound_of_a_subspace*
batch divides|tuner/rule_codings.c|return batch % topo_axes_product(mesh, (unsigned)takes) == 0;|return batch >= 0 * topo_axes_product(mesh, (unsigned)takes);|test_search_properties|no_bound_of_a_subspace*
rule sets that are alike|tuner/rule_codings.c|const bool asked = coding->o->classes[c].given && coding->classes[c].scope & scope;|const bool asked = false;|test_search_properties|no_*
state in the memory of rule sets|tuner/rule_prices.c|return tuner_work_state_bytes(&p->work, classes);|return 0 * tuner_work_state_bytes(&p->work, classes);|test_tuner|rule_sets_*
sums in one collective|tuner/bounds.c|return fmin(s, at_once_s * (waits(w, dot, summed) ? turns->once : turns->each));|return s;|test_search_properties|sums_*
dtype of summed accumulators|tuner/relaxed_program.c|if (count_readers(d, op->inputs[0]) * (wide - narrow) > wide + narrow)|if (wide < narrow)|test_search_properties|sums_of_accumulators*
sums that are cut|tuner/bounds.c|if (scattered) s = fmin(s, (dot->hoistable|if (scattered) s = (1 * (dot->hoistable|test_search_properties|sums_may_be_whole*
weights gathered in each microbatch|tuner/bounds.c|s += operand_s(w, &dot->operands[i], choice) * turns->each;|s += operand_s(w, &dot->operands[i], choice) * turns->once;|test_search_properties|shards_*
gradients scattered in each microbatch|tuner/bounds.c|return !known \|\| !class_has(w, dot->result_class, axes);|return known \|\| !class_has(w, dot->result_class, axes);|test_search_properties|shards_*
operands that propagation moves|tuner/propagated_bound.c|if (divisor) out.moved_s += |if (divisor < 0) out.moved_s += |test_search_properties|propagation_*
what moves operands is shared|tuner/propagated_bound.c|c->moved_as[move->operand]) / divisor;|c->moved_as[move->operand]);|test_search_properties|bounds_of_rules*
links of plans|tuner/bounds.c|s += links_s(w, search->dot, &search->choice, &search->turns);|s += 0 * links_s(w, search->dot, &search->choice, &search->turns);|test_tuner|bounds_*
options too slow to price|tuner/rule_prices.c|double room_s = limit_s - own_s;|double room_s = limit_s - 1.5 * own_s;|test_search_properties|limits_*
rates of products by dtype|tuner/bounds.c|double fastest = fmax(1, sim_rate_frac(profile, w->o->dtype));|double fastest = 1;|test_search_properties|products_*
memory of plans|tuner/search_rules.c|if (node.peak_bytes > s->limit_bytes) tuner_search_set_aside(s, node);|if (node.peak_bytes < 0) tuner_search_set_aside(s, node);|test_tuner|bounds_*
END
}

# Puts one text in another's place, or with --check nothing; ends with an error unless it stood there once.
replace() {
    python3 - "$@" <<'END'
import sys
path, old, new = sys.argv[1:4]
text = open(path).read()
if text.count(old) != 1:
    sys.exit(f"{path}: {text.count(old)} times: {old}")
if sys.argv[4:] != ["--check"]:
    open(path, "w").write(text.replace(old, new))
END
}

# One mutant per line with its fields between bars; an escaped bar is literal, and `bars` restores it.
rows() { mutants | grep "^$only" | sed 's/\\|/\x01/g'; }
bars() { printf '%s' "$1" | tr '\001' '|'; }

if [ "$folder" = --check ]; then
    rows | {
        stale=0
        while IFS='|' read -r name file old new rest; do replace "$file" "$(bars "$old")" "$(bars "$new")" --check || stale=1; done
        exit "$stale"
    }
    exit
fi

alive=0
count=0
mkdir -p "$folder"
git ls-files >"$folder/files"
rm -rf "$folder/tree"
mkdir -p "$folder/tree"
tar -cf - -T "$folder/files" | tar -xf - -C "$folder/tree"
rows | while IFS='|' read -r name file old new program tests; do
    count=$((count + 1))
    cp "$root/$file" "$folder/tree/$file"
    replace "$folder/tree/$file" "$(bars "$old")" "$(bars "$new")"
    if ! make -C "$folder/tree" CC="${CC:-cc}" BUILD=build "build/tests/$program" >"$folder/log" 2>&1; then
        cat "$folder/log"
        echo "$name: does not build"
        exit 1
    fi
    if (cd "$folder/tree" && timeout 900 "build/tests/$program" "$tests") >"$folder/log" 2>&1; then
        echo "$name: no test fails"
        alive=$((alive + 1))
    else
        echo "$name: $(sed -n 's/^\[  FAILED  \] //p' "$folder/log" | grep -v 'test(s)' | sort -u | head -n 1)"
    fi
    cp "$root/$file" "$folder/tree/$file"
    echo "$count $alive" >"$folder/counts"
done
read -r count alive <"$folder/counts"
echo "mutants: $((count - alive)) of $count make a test fail"
[ "$alive" -eq 0 ]
