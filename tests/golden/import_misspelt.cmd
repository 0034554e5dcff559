sed -e 's/num_microbatches/num_microbatchs/' -e 's/^DROPOUT_RATE/DROPUT_RATE/' wmt.gin > misspelt.gin; meshwright import misspelt.gin
