meshwright models
