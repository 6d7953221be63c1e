// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

// CHECK-LABEL: loops.func @schedules {
// CHECK-NEXT:    %x = assign.node "x" constant : memref<10x16x2xf32>
// CHECK-NEXT:    %h = assign.node "h" on_device : memref<10x16xf32>
// CHECK-NEXT:    loops.nest "all" (b = 10, o = 16) schedule <order = (o, b), rows = b : 2, lanes = o : 8> {
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "order" (b = 10, o = 16) schedule <order = (o, b)> {
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "rows" (b = 10, o = 16) schedule <rows = o : 1> {
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "default" (b = 10, o = 16) schedule <> {
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "parallel" (b = 10, o = 16) schedule <parallel = (b : 4)> {
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "strips" (b = 10, o = 16) schedule <order = (o, b), parallel = (b : 8), rows = b : 2, strips = b : 4> {
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "tuned" (b = 10, o = 16) schedule <tuned, order = (o, b)> {
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "blocks of tiles" (b = 10, o = 16) schedule <order = (o, b), parallel = (o : 16, b : 4), rows = b : 2, lanes = o : 8> {
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "merged" (b = 10, o = 16) schedule <merged = (b*o, i*j), order = (b*o), rows = b*o : 2, lanes = i*j : 8> {
// CHECK:         loops.nest "lanes of a reduction" (b = 10, o = 16) schedule <lanes = i : 2, chains = 4> {
// CHECK-NEXT:      %t = loops.reduce add (i = 2) : f32 {
// CHECK-NEXT:        %l = loops.load %x[b, o, i]
// CHECK-NEXT:        loops.yield %l
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %t, %h[b, o]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "blocks of sums" (b = 10, o = 16) {
// CHECK-NEXT:      %u = loops.reduce add (i = 2) blocks 16 compensated : f32 {
// CHECK-NEXT:        %m = loops.load %x[b, o, i]
// CHECK-NEXT:        loops.yield %m
// CHECK-NEXT:      }
// CHECK-NEXT:      %w = loops.reduce add (i = 2) blocks 256 : f32 {
// CHECK-NEXT:        %v = loops.load %x[b, o, i]
// CHECK-NEXT:        loops.yield %v
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @schedules {
  %x = assign.node "x" constant : memref<10x16x2xf32>
  %h = assign.node "h" on_device : memref<10x16xf32>
  loops.nest "all" (b = 10, o = 16) schedule <order = (o, b), rows = b : 2, lanes = o : 8> {
  }
  loops.nest "order" (b = 10, o = 16) schedule <order = (o, b)> {
  }
  loops.nest "rows" (b = 10, o = 16) schedule <rows = o : 1> {
  }
  loops.nest "default" (b = 10, o = 16) schedule <> {
  }
  loops.nest "parallel" (b = 10, o = 16) schedule <parallel = (b : 4)> {
  }
  loops.nest "strips" (b = 10, o = 16) schedule <strips = b : 4, parallel = (b : 8), rows = b : 2, order = (o, b)> {
  }
  loops.nest "tuned" (b = 10, o = 16) schedule <tuned, order = (o, b)> {
  }
  loops.nest "blocks of tiles" (b = 10, o = 16) schedule <parallel = (o : 16, b : 4), lanes = o : 8, rows = b : 2, order = (o, b)> {
  }
  loops.nest "merged" (b = 10, o = 16) schedule <lanes = i*j : 8, rows = b*o : 2, order = (b*o), merged = (b*o, i*j)> {
    %s = loops.reduce add (i = 2, j = 3) : f32 {
      %n = loops.index 3*i + j : f32
      loops.yield %n
    }
    loops.store %s, %h[b, o]
  }
  loops.group "group" (b = 10) schedule <parallel = (b : 4)> {
  }
  loops.nest "lanes of a reduction" (b = 10, o = 16) schedule <chains = 4, lanes = i : 2> {
    %t = loops.reduce add (i = 2) : f32 {
      %l = loops.load %x[b, o, i]
      loops.yield %l
    }
    loops.store %t, %h[b, o]
  }
  loops.nest "blocks of sums" (b = 10, o = 16) {
    %u = loops.reduce add (i = 2) blocks 16 compensated : f32 {
      %m = loops.load %x[b, o, i]
      loops.yield %m
    }
    %w = loops.reduce add (i = 2) blocks 256 : f32 {
      %v = loops.load %x[b, o, i]
      loops.yield %v
    }
  }
}
