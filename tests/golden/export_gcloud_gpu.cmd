meshwright export decoder.json --format gcloud
