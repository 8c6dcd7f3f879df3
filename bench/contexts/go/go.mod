module bench.example/contexts

go 1.26.0
