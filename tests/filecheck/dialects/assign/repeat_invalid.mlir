// RUN: ocannl-opt %s --split-input-file --verify-diagnostics | filecheck %s

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  assign.repeat @c t = 4 ("s" = %s, "x" = %x)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: there is no routine @c before the one that repeats it

// -----

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  assign.repeat @r t = 4 ("s" = %s, "x" = %x)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: there is no routine @r before the one that repeats it

// -----

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  assign.repeat @b t = 3 ("s" = %s, "x" = %x)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: @b has no static index `t = 3`

// -----

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  assign.repeat @b u = 4 ("s" = %s, "x" = %x)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: @b has no static index `u = 4`

// -----

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  assign.repeat @b t = 4 ("s" = %s, "x" = %x)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: `step = 2` of @b is no static index of the caller

// -----

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  assign.repeat @b t = 4 ("s" = %s)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: 'x' of @b is not bound

// -----

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  assign.repeat @b t = 4 ("s" = %s, "x" = %x, "y" = %x)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: 'y' is no node of @b with memory of its own

// -----

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  %y = assign.node "y" on_device : memref<3xf32>
  assign.repeat @b t = 4 ("s" = %s, "x" = %y)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: 'x' is a memref<2xf32>, bound to a memref<3xf32>

// -----

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  assign.repeat @b t = 4 ("s" = %s, "x" = %s)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: 's' is bound to the node of another, and one of them is written

// -----

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  assign.repeat @b t = 4 while %x ("s" = %s, "x" = %x)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: a flag is one number, found memref<2xf32>

// -----

assign.routine @b indices (t = 4, step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" constant : memref<2xf32>
  assign.accum %s[i] add= %x[i] over (i = 2)
}
assign.routine @r indices (step = 2) {
  %s = assign.node "s" on_device : memref<2xf32>
  %x = assign.node "x" on_device : memref<2xf32>
  %one = assign.embed step : memref<2xf32>
  assign.repeat @b t = 4 ("s" = %one, "x" = %x)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: what a body is given are nodes

// -----

assign.routine @b indices (t = 4) {
  %x = assign.node "x" on_device : memref<2xf32>
  assign.accum %x[i] = 1.0 over (i = 2)
}
assign.routine @r {
  %s = assign.node "s" constant : memref<2xf32>
  assign.repeat @b t = 4 ("x" = %s)
}

// CHECK: {{:[0-9]+:[0-9]+}}: `assign.repeat`: 's' is constant, which no routine writes
