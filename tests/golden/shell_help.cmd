meshwright batch --help
