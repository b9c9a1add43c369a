module lodge.test/cluster/pause

go 1.26.0
