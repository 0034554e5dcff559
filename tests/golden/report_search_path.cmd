meshwright report elsewhere.gin --gin-search-path house | head -n 4
