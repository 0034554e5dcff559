/* pictures: what the tests of drawings share: words that stay apart and on the page. */
#ifndef PICTURES_H
#define PICTURES_H

#include "plots/canvas.h"
#include "tests/test.h"

static inline bool pictures_overlap(const struct plots_box *a, const struct plots_box *b)
{
    static const double slack_px = 0.2;
    return a->x + slack_px < b->x + b->width && b->x + slack_px < a->x + a->width &&
           a->y + slack_px < b->y + b->height && b->y + slack_px < a->y + a->height;
}

static inline void pictures_check_words(const struct plots_canvas *canvas)
{
    for (int i = 0; i < canvas->mark_count; i++) {
        const struct plots_mark *mark = &canvas->marks[i];
        if (mark->kind != PLOTS_TEXT) continue;
        if (mark->box.x < 0 || mark->box.y < 0 || mark->box.x + mark->box.width > PLOTS_PAGE_WIDTH_PX ||
            mark->box.y + mark->box.height > canvas->height_px)
            fail_msg("\"%s\" leaves the page", mark->text);
        for (int j = 0; j < i; j++)
            if (canvas->marks[j].kind == PLOTS_TEXT && pictures_overlap(&mark->box, &canvas->marks[j].box))
                fail_msg("\"%s\" overlaps \"%s\"", mark->text, canvas->marks[j].text);
    }
}

static inline int pictures_count(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) count++;
    return count;
}

#endif
