/* --train-tokens and --device-hour-price, of predict and tune. */
#include "commands/commands.h"
#include "reports/reports.h"
#include "topo/topo.h"

#include <string.h>

/* A price without a run is that of so many target tokens. */
static const double priced_tokens = 1e9;

/* "v4=3.2": for a topology as given, or for all topologies of a chip; without a name, by position. */
struct price {
    const char *name, *chip; /* NULL: has none */
    double of_device_hour;
    bool used;
};

static enum base_status read_price(struct base_arena *arena, const char *text, size_t length, struct price *out,
                                   struct base_error *error)
{
    const char *item = base_copy_bytes(arena, text, length), *equals = strrchr(item, '=');
    const struct topo_chip *chip = NULL;
    struct base_error ignored;
    *out = (struct price){0};
    if (equals) out->name = base_copy_bytes(arena, item, (size_t)(equals - item));
    if (equals && topo_chip_called(arena, out->name, &chip, &ignored) == BASE_OK) out->chip = chip->name;
    if (equals && !*out->name)
        return base_fail(error, BASE_INPUT, "--device-hour-price: \"%.60s\": names neither topology nor chip", item);
    return base_parse_double(equals ? equals + 1 : item, "--device-hour-price", 1e-9, 1e9, &out->of_device_hour, error);
}

static bool is_same(const struct price *a, const struct price *b)
{
    if (a->chip && b->chip) return !strcmp(a->chip, b->chip);
    return a->name && !strcmp(a->name, b->name);
}

static enum base_status read_prices(struct base_arena *arena, const char *text, struct price **out, int *count,
                                    struct base_error *error)
{
    int capacity = 1, named = 0;
    for (const char *at = text; *at; at++) capacity += *at == ';' || *at == ',';
    struct price *prices = base_new(arena, struct price, capacity);
    for (*count = 0; *count < capacity; text += strcspn(text, ";,") + 1) {
        struct price *price = &prices[*count];
        BASE_TRY(read_price(arena, text, strcspn(text, ";,"), price, error));
        named += price->name != NULL;
        for (int i = 0; price->name && i < *count; i++)
            if (is_same(&prices[i], price))
                return base_fail(error, BASE_INPUT, "--device-hour-price: %.60s has two prices", price->name);
        ++*count;
    }
    *out = prices;
    if (named && named < *count)
        return base_fail(error, BASE_INPUT, "--device-hour-price: only some prices have a name; name all, or none");
    return BASE_OK;
}

/* The topology's own, or its chip's; NULL: neither is among them. */
static struct price *find_price(struct price *prices, int count, const char *topology, const char *chip)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(prices[i].name, topology)) return &prices[i];
    for (int i = 0; i < count; i++)
        if (prices[i].chip && !strcmp(prices[i].chip, chip)) return &prices[i];
    return NULL;
}

static enum base_status refuse_unused(const struct price *prices, int count, struct base_error *error)
{
    for (int i = 0; i < count; i++)
        if (!prices[i].used)
            return base_fail(error, BASE_INPUT,
                             "--device-hour-price: %.60s is neither a requested topology nor the chip of one",
                             prices[i].name);
    return BASE_OK;
}

/* chips: of each topology, "" where it is none. */
static enum base_status price_by_name(struct price *prices, int price_count, const char *const *topologies,
                                      const char *const *chips, int count, struct reports_training *out,
                                      struct base_error *error)
{
    for (int i = 0; i < count; i++) {
        struct price *price = find_price(prices, price_count, topologies[i], chips[i]);
        if (!price && *chips[i])
            return base_fail(error, BASE_INPUT, "--device-hour-price: %.60s has none; add %s=P", topologies[i],
                             chips[i]);
        if (!price) continue;
        price->used = true;
        out[i].device_hour_price = price->of_device_hour;
    }
    return refuse_unused(prices, price_count, error);
}

/* A single price is for one kind of chip; several are in the order of the topologies. */
static enum base_status price_by_place(const struct price *prices, int price_count, const char *const *chips, int count,
                                       struct reports_training *out, struct base_error *error)
{
    const char *chip = "";
    if (price_count > 1 && price_count != count)
        return base_fail(error, BASE_INPUT, "--device-hour-price: %d prices for %d topolog%s; give one for each",
                         price_count, count, count == 1 ? "y" : "ies");
    for (int i = 0; i < count; i++) {
        if (price_count == 1 && *chip && *chips[i] && strcmp(chip, chips[i]) != 0)
            return base_fail(error, BASE_INPUT,
                             "--device-hour-price: one price for %s and %s; give each its own, as in '%s=P;%s=P'", chip,
                             chips[i], chip, chips[i]);
        if (*chips[i]) chip = chips[i];
        out[i].device_hour_price = prices[price_count == 1 ? 0 : i].of_device_hour;
    }
    return BASE_OK;
}

static enum base_status read_device_prices(struct base_arena *arena, const char *given, const char *const *topologies,
                                           int count, struct reports_training *out, struct base_error *error)
{
    const char **chips = base_new(arena, const char *, count);
    struct price *prices = NULL;
    int price_count;
    if (!topologies[0]) return BASE_OK; /* that it is missing is said elsewhere */
    BASE_TRY(read_prices(arena, given, &prices, &price_count, error));
    for (int i = 0; i < count; i++) {
        struct topo_topology topology;
        struct base_error ignored; /* the caller reports the error */
        chips[i] = topo_parse(arena, topologies[i], &topology, &ignored) == BASE_OK
                       ? base_copy(arena, topology.chip.name)
                       : "";
    }
    return prices[0].name ? price_by_name(prices, price_count, topologies, chips, count, out, error)
                          : price_by_place(prices, price_count, chips, count, out, error);
}

enum base_status commands_training(struct base_arena *arena, const struct base_arguments *arguments,
                                   const char *const *topologies, int count, struct reports_training *out,
                                   struct base_error *error)
{
    const char *tokens = base_argument(arguments, "--train-tokens"),
               *price = base_argument(arguments, "--device-hour-price");
    int64_t train_tokens = 0;
    if (tokens) BASE_TRY(base_parse_count(tokens, "--train-tokens", 1, 1000000000000000000, &train_tokens, error));
    for (int i = 0; i < count; i++)
        out[i] = (struct reports_training){price && !tokens ? priced_tokens : (double)train_tokens, 0};
    return price ? read_device_prices(arena, price, topologies, count, out, error) : BASE_OK;
}
