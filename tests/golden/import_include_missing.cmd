printf "include 'lab/ours.gin'\\n" >lab.gin && { meshwright import lab.gin; status=$?; rm lab.gin; exit $status; }
