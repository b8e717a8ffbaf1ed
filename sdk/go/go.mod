module anycloud.sh/sdk-go

go 1.23
