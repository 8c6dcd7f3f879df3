module tickets.example/shows

go 1.24
