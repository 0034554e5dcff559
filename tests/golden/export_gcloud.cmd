meshwright export t5_11b.json --format gcloud | grep -v '^#'
