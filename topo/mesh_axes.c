/* Named axes of a logical mesh and sets of them; only this file spells and parses axes. */
#include "topo/topo.h"

#include <string.h>

enum { LARGEST_AXIS = 1 << 20, LONGEST_NAME = 40 };

int topo_axis_named(const struct topo_axes *axes, const char *name)
{
    for (int i = 0; name && i < axes->count; i++)
        if (!strcmp(axes->names[i], name)) return i;
    return -1;
}

unsigned topo_axis_bit(const struct topo_axes *axes, const char *name)
{
    const int axis = topo_axis_named(axes, name);
    return axis < 0 ? 0 : 1u << axis;
}

int topo_axes_product(const struct topo_axes *axes, unsigned set)
{
    int product = 1;
    for (int i = 0; i < axes->count; i++)
        if (set >> i & 1u) product *= axes->sizes[i];
    return product;
}

int64_t topo_shard_extent(const struct topo_axes *axes, unsigned set, int64_t extent)
{
    return set ? base_ceil_div(extent, topo_axes_product(axes, set)) : extent;
}

int topo_axes_offset(const struct topo_axes *axes, unsigned set, int n)
{
    int offset = 0, stride = 1;
    for (int i = axes->count - 1; i >= 0; stride *= axes->sizes[i--]) {
        if (!(set >> i & 1u)) continue;
        offset += n % axes->sizes[i] * stride;
        n /= axes->sizes[i];
    }
    return offset;
}

unsigned topo_axes_all(const struct topo_axes *axes)
{
    return (1u << axes->count) - 1u;
}

const char *topo_axes_join(struct base_arena *arena, const struct topo_axes *axes, unsigned set, const char *between)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < axes->count; i++)
        if (set >> i & 1u) base_putf(&text, "%s%s", text.length ? between : "", axes->names[i]);
    return text.length ? text.data : "";
}

const char *topo_axes_describe(struct base_arena *arena, const struct topo_axes *axes)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < axes->count; i++) base_putf(&text, "%s%s %d", i ? " x " : "", axes->names[i], axes->sizes[i]);
    return text.length ? text.data : "";
}

void topo_axes_put_member(struct base_json_writer *writer, const char *key, const struct topo_axes *axes)
{
    base_json_member_open_inline(writer, key, '{');
    for (int i = 0; i < axes->count; i++) base_json_member_int(writer, axes->names[i], axes->sizes[i]);
    base_json_close(writer, '}');
}

const char *topo_axes_spell(struct base_arena *arena, const struct topo_axes *axes, unsigned set)
{
    return topo_axes_join(arena, axes, set, "+");
}

const char *topo_axes_sizes(struct base_arena *arena, const struct topo_axes *axes)
{
    struct base_text text = {.arena = arena};
    for (int i = 0; i < axes->count; i++) base_putf(&text, "%s%s=%d", i ? "," : "", axes->names[i], axes->sizes[i]);
    return text.length ? text.data : "";
}

enum base_status topo_axis_unknown(const struct topo_axes *axes, const char *name, struct base_error *error)
{
    char list[TOPO_MOST_AXES * (LONGEST_NAME + 2) + 8] = "none";
    size_t used = 0;
    for (int i = 0; i < axes->count; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.40s", i ? ", " : "", axes->names[i]);
    return base_fail(error, BASE_INPUT, "the mesh axis %.60s is not found in the mesh, whose axes are: %s", name, list);
}

enum base_status topo_axes_read(const struct topo_axes *axes, const char *text, unsigned *set, struct base_error *error)
{
    unsigned found = 0;
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
        char name[LONGEST_NAME + 1];
        size_t length = strcspn(at, "+");
        end = at + length;
        snprintf(name, sizeof name, "%.*s", (int)(length < LONGEST_NAME ? length : LONGEST_NAME), at);
        int axis = length <= LONGEST_NAME ? topo_axis_named(axes, name) : -1;
        if (axis < 0) return topo_axis_unknown(axes, name, error);
        if (found >> axis & 1u)
            return base_fail(error, BASE_INPUT, "the mesh axis %s is in \"%.80s\" twice; name it once", name, text);
        found |= 1u << axis;
    }
    *set = found;
    return BASE_OK;
}

/* Excludes the separators of this file, of specs and of JSON. */
static bool is_name(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length <= LONGEST_NAME && strcmp(name, "-") != 0 && strcspn(name, "+,;= \"\\/") == length;
}

enum base_status topo_axes_add(struct topo_axes *axes, const char *name, int64_t size, struct base_error *error)
{
    int64_t device_count = (int64_t)topo_axes_product(axes, topo_axes_all(axes)) * size; /* at most 2^40 */
    if (!is_name(name))
        return base_fail(error, BASE_INPUT, "\"%.60s\" cannot be the name of an axis; use up to %d letters and digits",
                         name, LONGEST_NAME);
    if (axes->count == TOPO_MOST_AXES) return base_fail(error, BASE_INPUT, "more than %d axes", TOPO_MOST_AXES);
    if (topo_axis_named(axes, name) >= 0)
        return base_fail(error, BASE_INPUT, "the axis %.60s is a duplicate; keep one", name);
    if (device_count > LARGEST_AXIS) return base_fail(error, BASE_INPUT, "more than %d devices", LARGEST_AXIS);
    axes->names[axes->count] = name;
    axes->sizes[axes->count++] = (int)size;
    return BASE_OK;
}

/* The position of "-1" as a size; NULL: none. */
static char *filled_size(char *text)
{
    char *at = strstr(text, "-1");
    return at && at > text && strchr("=: ", at[-1]) && strcspn(at + 2, ", }") == 0 ? at : NULL;
}

enum base_status topo_axes_fill(struct base_arena *arena, const char *text, const char *what, int devices,
                                const char **out, struct base_error *error)
{
    char *copy = base_copy(arena, text), *at = filled_size(copy);
    struct topo_axes axes;
    *out = text;
    if (!at) return BASE_OK;
    at[0] = ' ', at[1] = '1';
    if (filled_size(copy))
        return base_fail(error, BASE_INPUT, "%s: -1 is used for two axes; only one can be filled", what);
    memmove(at, at + 1, strlen(at));
    BASE_TRY(topo_axes_parse(arena, copy, what, &axes, error));
    const int product = topo_axes_product(&axes, topo_axes_all(&axes));
    if (devices % product)
        return base_fail(error, BASE_INPUT, "%s: -1 cannot be filled: %d devices are no multiple of %d", what, devices,
                         product);
    *out = base_print(arena, "%.*s%d%s", (int)(at - copy), copy, devices / product, at + 1);
    return BASE_OK;
}

static enum base_status add_members(const struct base_json *object, struct topo_axes *axes, struct base_error *error)
{
    for (const struct base_json *member = object->child; member; member = member->next) {
        int64_t size;
        BASE_TRY(base_json_int(member, member->key, 1, LARGEST_AXIS, &size, error));
        BASE_TRY(topo_axes_add(axes, member->key, size, error));
    }
    if (axes->count > 0) return BASE_OK;
    return base_fail(error, BASE_INPUT, "is an empty object; name an axis, as in {\"data\": 4, \"model\": 2}");
}

static enum base_status parse_object(struct base_arena *arena, const char *text, struct topo_axes *axes,
                                     struct base_error *error)
{
    const struct base_json *object;
    BASE_TRY(base_json_parse(arena, text, strlen(text), &object, error));
    return add_members(object, axes, error);
}

/* "4x32x4" or "4,32,4": sizes in the order of the axes that most software has. */
static enum base_status refuse_unnamed(const char *text, const char *what, const char *at, struct base_error *error)
{
    static const char *const names[] = {"data", "fsdp", "tensor"};
    char named[120] = "";
    size_t length = 0;
    int count = 0;
    for (const char *size = text; count < BASE_COUNT(names); size++) {
        const size_t digits = strspn(size, "0123456789");
        if (!digits || digits > 6) break;
        length += (size_t)snprintf(named + length, sizeof named - length, "%s%s=%.*s", count ? "," : "", names[count],
                                   (int)digits, size);
        count++;
        size += digits;
        if (!*size)
            return base_fail(
                error, BASE_INPUT,
                "%s: \"%.60s\" has sizes without their axes; name them, as in %s (the sizes multiply to the "
                "number of devices; one of -1 is filled)",
                what, text, named);
        if (!strchr("x,", *size)) break;
    }
    return base_fail(error, BASE_INPUT, "%s: \"%.60s\" is no axis=size; as in data=4,model=2", what, at);
}

enum base_status topo_axes_parse(struct base_arena *arena, const char *text, const char *what, struct topo_axes *out,
                                 struct base_error *error)
{
    struct topo_axes axes = {0};
    bool is_object = *text == '{';
    if (is_object && parse_object(arena, text, &axes, error) != BASE_OK) return base_fail_in(error, "%s", what);
    for (char *at = is_object ? NULL : base_copy(arena, text), *next; at; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = '\0';
        char *equals = strchr(at, '=');
        int64_t size;
        if (!equals || equals == at) return refuse_unnamed(text, what, at, error);
        *equals = '\0';
        if (base_parse_int(equals + 1, at, 1, LARGEST_AXIS, &size, error) != BASE_OK ||
            topo_axes_add(&axes, at, size, error) != BASE_OK)
            return base_fail_in(error, "%s", what);
    }
    *out = axes;
    return BASE_OK;
}
