meshwright import no_such.gin
