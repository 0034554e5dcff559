/* Per-tensor remat: "device:query_proj+key_proj;offload:decoder_layer_input". The names are MaxText's
 * (checkpoint_name in its layers). Unnamed tensors are recomputed, and the layer's input is on the device. A final
 * "layers:12" limits this to 12 layers of the deepest stack. The other layers save only their input, like the layers
 * that Megatron-LM's --recompute-num-layers counts. */
#include "model/model.h"
#include "model/remat_policies.csv.h"

#include <string.h>

#define BIT(name) (1u << MODEL_SAVED_##name)

static const struct {
    const char *name;
    unsigned tensors;
} names[] = {
    {"decoder_layer_input", BIT(LAYER_INPUT)},
    {"context", BIT(CONTEXT)},
    {"qkv_proj", BIT(QUERY) | BIT(KEY) | BIT(VALUE)},
    {"query_proj", BIT(QUERY)},
    {"key_proj", BIT(KEY)},
    {"value_proj", BIT(VALUE)},
    {"out_proj", BIT(OUT)},
    {"mlpwi", BIT(WI_0) | BIT(WI_1)},
    {"mlpwi_0", BIT(WI_0)},
    {"mlpwi_1", BIT(WI_1)},
    {"mlpwo", BIT(WO)},
};

/* AI-Hypercomputer/maxtext@e591f30 src/maxtext/layers/decoders.py get_remat_policy; minimal_flash is the old name of
 * minimal_with_context. */
static const struct {
    const char *name, *tensors;
} policies[] = {REMAT_POLICIES_ROWS};

const char *model_policy_tensors(const char *name)
{
    for (int i = 0; i < BASE_COUNT(policies); i++)
        if (!strcmp(policies[i].name, name)) return policies[i].tensors;
    return NULL;
}

static enum base_status refuse_name(const char *text, size_t length, struct base_error *error)
{
    const char *known[BASE_COUNT(names)];
    char given[64];
    for (int i = 0; i < BASE_COUNT(names); i++) known[i] = names[i].name;
    snprintf(given, sizeof given, "%.*s", (int)(length < 60 ? length : 60), text);
    return base_fail_unknown(error, BASE_INPUT, "remat_policy", given, known, BASE_COUNT(names));
}

static enum base_status read_names(const char **at, unsigned *out, struct base_error *error)
{
    for (;;) {
        size_t length = strcspn(*at, "+;");
        unsigned found = 0;
        for (int i = 0; i < BASE_COUNT(names); i++)
            if (strlen(names[i].name) == length && !strncmp(names[i].name, *at, length)) found = names[i].tensors;
        if (!found) return refuse_name(*at, length, error);
        *out |= found;
        *at += length;
        if (**at != '+') return BASE_OK;
        ++*at;
    }
}

enum { MOST_LAYERS = 100000 };

static enum base_status read_layers(const char **at, int *layers, struct base_error *error)
{
    char digits[64];
    int64_t count;
    const size_t length = strcspn(*at, ";");
    if (*layers) return base_fail(error, BASE_INPUT, "remat_policy: layers: given twice; keep one");
    snprintf(digits, sizeof digits, "%.*s", (int)(length < sizeof digits ? length : sizeof digits - 1), *at);
    BASE_TRY(base_parse_int(digits, "remat_policy: layers", 1, MOST_LAYERS, &count, error));
    *layers = (int)count;
    *at += length;
    return BASE_OK;
}

static const struct {
    const char *begin, *key;
    int least;
} of_some[] = {{"full;every:", "remat_policy: full;every", 2}, {"full;layers:", "remat_policy: full;layers", 1}};

static int kind_of(const char *text)
{
    for (int i = 0; i < BASE_COUNT(of_some); i++)
        if (!strncmp(text, of_some[i].begin, strlen(of_some[i].begin))) return i;
    return -1;
}

bool model_is_of_some_layers(const char *text)
{
    return kind_of(text) >= 0;
}

enum base_status model_some_layers_parse(const char *text, int *every, int *layers, struct base_error *error)
{
    const int kind = kind_of(text);
    int64_t count;
    BASE_TRY(base_parse_int(text + strlen(of_some[kind].begin), of_some[kind].key, of_some[kind].least, MOST_LAYERS,
                            &count, error));
    *(kind ? layers : every) = (int)count;
    return BASE_OK;
}

enum base_status model_saved_parse(const char *text, struct model_saved *out, struct base_error *error)
{
    static const char layers[] = "layers:";
    struct model_saved saved = {0};
    for (const char *at = text; *at; at += *at == ';') {
        if (!strncmp(at, layers, sizeof layers - 1)) {
            at += sizeof layers - 1;
            BASE_TRY(read_layers(&at, &saved.layers, error));
            continue;
        }
        bool device = !strncmp(at, "device:", 7), offload = !strncmp(at, "offload:", 8);
        if (!device && !offload)
            return base_fail(error, BASE_INPUT,
                             "remat_policy: \"%.60s\" begins with neither device:, offload: nor layers:; as in "
                             "device:query_proj+key_proj;offload:decoder_layer_input",
                             at);
        at += device ? 7 : 8;
        BASE_TRY(read_names(&at, device ? &saved.device : &saved.host, error));
    }
    if (saved.device & saved.host)
        return base_fail(error, BASE_INPUT,
                         "remat_policy: \"%.60s\" names a tensor for the device and for the host; keep one", text);
    if (saved.layers && !(saved.device | saved.host))
        return base_fail(error, BASE_INPUT,
                         "remat_policy: \"%.60s\" names no tensor that those layers save; name some, as in "
                         "device:query_proj;layers:%d, or use full",
                         text, saved.layers);
    *out = saved;
    return BASE_OK;
}

static void put_names(const char *where, unsigned tensors, struct base_text *out)
{
    const char *joint = where;
    for (int i = 0; i < BASE_COUNT(names); i++) {
        bool one = (names[i].tensors & (names[i].tensors - 1)) == 0;
        if (!one || !(names[i].tensors & tensors)) continue;
        base_putf(out, "%s%s%s", joint == where && out->length ? ";" : "", joint, names[i].name);
        joint = "+";
    }
}

const char *model_saved_text(struct base_arena *arena, const struct model_saved *saved)
{
    struct base_text out = {.arena = arena};
    put_names("device:", saved->device, &out);
    put_names("offload:", saved->host, &out);
    if (saved->layers) base_putf(&out, "%slayers:%d", out.length ? ";" : "", saved->layers);
    return out.data;
}

const char *model_saved_name_of(enum model_saved_name name)
{
    int i = 0;
    while (i + 1 < BASE_COUNT(names) && names[i].tensors != 1u << name) i++;
    return names[i].name;
}
