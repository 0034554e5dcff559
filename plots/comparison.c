/* The comparison of predicted and measured speeds: bars for few rows, a scatter for many. */
#include "plots/comparison.h"
#include "plots/search_document.h"

enum { MOST_ROWS_IN_BARS = 60 };

void plots_comparison_lay_out(struct plots_canvas *canvas, const struct plots_comparison *comparison)
{
    if (comparison->count <= MOST_ROWS_IN_BARS) plots_comparison_bars(canvas, comparison);
    else plots_comparison_scatter(canvas, comparison);
}

enum base_status plots_comparison_draw(struct base_arena *arena, const struct plots_comparison *comparison,
                                       enum plots_format format, struct plots_picture *out, struct base_error *error)
{
    struct plots_canvas canvas = {.arena = arena};
    plots_comparison_lay_out(&canvas, comparison);
    return plots_finish(&canvas, format, comparison->count, out, error);
}
