module pathcost/afecho

go 1.19
