meshwright sweep plans.csv --out plans.html; grep -o '<h[12]>[^<]*' plans.html; grep -c '<tr>' plans.html; grep -o '<th[^>]*>[^<]*' plans.html | sed 's/<[^>]*>//' | tr '\n' ' '; rm plans.html
