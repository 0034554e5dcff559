/* Other software's words for a key, an option or a value of ours. Columns of synonyms.csv: what (words joined by
 * spaces), given (folded to lower-case letters and digits), meant, and whether it is accepted or only suggested. */
#include "base/base.h"

#include <ctype.h>
#include <string.h>

extern const struct base_table embedded_base_synonyms_csv;
static const struct base_table *const table = &embedded_base_synonyms_csv;

enum { WHAT, GIVEN, MEANT, TAKEN, LONGEST = 64 };

const char *base_synonym(const char *what, const char *given, size_t given_length, enum base_synonym_use use)
{
    char folded[LONGEST];
    size_t length = 0;
    for (size_t i = 0; i < given_length && given[i]; i++) {
        if (!isalnum((unsigned char)given[i])) continue;
        if (length == LONGEST) return NULL;
        folded[length++] = (char)tolower((unsigned char)given[i]);
    }
    for (int row = 0; length && row < table->row_count; row++)
        if (base_lists(base_table_field(table, row, WHAT), what, strlen(what)) &&
            base_lists(base_table_field(table, row, GIVEN), folded, length) &&
            (use == BASE_SUGGESTED || *base_table_field(table, row, TAKEN) == '1'))
            return base_table_field(table, row, MEANT);
    return NULL;
}
