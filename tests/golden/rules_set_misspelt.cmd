meshwright rules --logical-axis-rules megatorn
