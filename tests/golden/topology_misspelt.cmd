meshwright topology v4-513 --out kept.txt
