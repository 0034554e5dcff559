/* --train-tokens and --device-hour-price, of predict and tune. */
#include "commands/commands.h"
#include "reports/reports.h"

enum base_status commands_training(const struct base_arguments *arguments, struct reports_training *out,
                                   struct base_error *error)
{
    const char *tokens = base_argument(arguments, "--train-tokens"),
               *price = base_argument(arguments, "--device-hour-price");
    *out = (struct reports_training){0, 0};
    if (tokens) BASE_TRY(base_parse_double(tokens, "--train-tokens", 1, 1e18, &out->train_tokens, error));
    if (price) BASE_TRY(base_parse_double(price, "--device-hour-price", 1e-9, 1e9, &out->device_hour_price, error));
    return BASE_OK;
}
