// RUN: ocannl-opt %s -p index-by-comparison | filecheck %s

// CHECK-LABEL: loops.func @gather {
// CHECK-NEXT:    %ids = assign.node "ids" constant : memref<4xi32>
// CHECK-NEXT:    %table = assign.node "table" constant : memref<6x8xf32>
// CHECK-NEXT:    %y = assign.node "y" on_device : memref<4x8xf32>
// CHECK-NEXT:    loops.nest "y" (b = 4, d = 8) {
// CHECK-NEXT:      %id = loops.load %ids[b]
// CHECK-NEXT:      %0, %1 = loops.position %id below 6
// CHECK-NEXT:      %is = arith.constant true
// CHECK-NEXT:      %x = loops.load %table[%0, d]
// CHECK-NEXT:      %hot = arith.uitofp %is : i1 to f32
// CHECK-NEXT:      %p = arith.mulf %x, %hot : f32
// CHECK-NEXT:      %2 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      %sum = arith.select %1, %p, %2 : f32
// CHECK-NEXT:      loops.store %sum, %y[b, d]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @gather {
  %ids = assign.node "ids" constant : memref<4xi32>
  %table = assign.node "table" constant : memref<6x8xf32>
  %y = assign.node "y" on_device : memref<4x8xf32>
  loops.nest "y" (b = 4, d = 8) {
    %sum = loops.reduce add (v = 6) : f32 {
      %x = loops.load %table[v, d]
      %id = loops.load %ids[b]
      %number = arith.sitofp %id : i32 to f32
      %index = loops.index v : f32
      %is = arith.cmpf oeq, %number, %index : f32
      %hot = arith.uitofp %is : i1 to f32
      %p = arith.mulf %x, %hot : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, d]
  }
}

// CHECK-LABEL: loops.func @scatter {
// CHECK-NEXT:    %ids = assign.node "ids" constant : memref<4xi32>
// CHECK-NEXT:    %g = assign.node "g" constant : memref<4x8xf32>
// CHECK-NEXT:    %table_grad = assign.node "table.grad" on_device : memref<6x8xf32>
// CHECK-NEXT:    loops.nest "table.grad" (v = 6, d = 8) {
// CHECK-NEXT:      %zero = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loops.store %zero, %table_grad[v, d]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "table.grad scatter" (b = 4, d = 8) {
// CHECK-NEXT:      %id = loops.load %ids[b]
// CHECK-NEXT:      %0, %1 = loops.position %id below 6
// CHECK-NEXT:      %is = arith.constant true
// CHECK-NEXT:      %x = loops.load %g[b, d]
// CHECK-NEXT:      %hot = arith.uitofp %is : i1 to f32
// CHECK-NEXT:      %p = arith.mulf %hot, %x : f32
// CHECK-NEXT:      %2 = loops.load %table_grad[%0, d]
// CHECK-NEXT:      %3 = arith.addf %2, %p : f32
// CHECK-NEXT:      %4 = arith.select %1, %3, %2 : f32
// CHECK-NEXT:      loops.store %4, %table_grad[%0, d]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @scatter {
  %ids = assign.node "ids" constant : memref<4xi32>
  %g = assign.node "g" constant : memref<4x8xf32>
  %table_grad = assign.node "table.grad" on_device : memref<6x8xf32>
  loops.nest "table.grad" (v = 6, d = 8) {
    %sum = loops.reduce add (b = 4) : f32 {
      %x = loops.load %g[b, d]
      %id = loops.load %ids[b]
      %number = arith.sitofp %id : i32 to f32
      %index = loops.index v : f32
      %is = arith.cmpf oeq, %index, %number : f32
      %hot = arith.uitofp %is : i1 to f32
      %p = arith.mulf %hot, %x : f32
      loops.yield %p
    }
    %zero = arith.constant 0.0 : f32
    %total = arith.addf %zero, %sum : f32
    loops.store %total, %table_grad[v, d]
  }
}

// CHECK-LABEL: loops.func @scatter_onto {
// CHECK-NEXT:    %ids = assign.node "ids" constant : memref<4xf32>
// CHECK-NEXT:    %g = assign.node "g" constant : memref<4xf32>
// CHECK-NEXT:    %x = assign.node "x" on_device : memref<6xf32>
// CHECK-NEXT:    loops.nest "x scatter" (b = 4) {
// CHECK-NEXT:      %id = loops.load %ids[b]
// CHECK-NEXT:      %0, %1 = loops.position %id below 6
// CHECK-NEXT:      %is = arith.constant true
// CHECK-NEXT:      %value = loops.load %g[b]
// CHECK-NEXT:      %none = arith.constant 0x7f800000 : f32
// CHECK-NEXT:      %p = arith.select %is, %value, %none : f32
// CHECK-NEXT:      %2 = loops.load %x[%0]
// CHECK-NEXT:      %3 = arith.minimumf %2, %p : f32
// CHECK-NEXT:      %4 = arith.select %1, %3, %2 : f32
// CHECK-NEXT:      loops.store %4, %x[%0]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @scatter_onto {
  %ids = assign.node "ids" constant : memref<4xf32>
  %g = assign.node "g" constant : memref<4xf32>
  %x = assign.node "x" on_device : memref<6xf32>
  loops.nest "x" (v = 6) {
    %old = loops.load %x[v]
    %least = loops.reduce min (b = 4) : f32 {
      %id = loops.load %ids[b]
      %index = loops.index v : f32
      %is = arith.cmpf oeq, %id, %index : f32
      %value = loops.load %g[b]
      %none = arith.constant 0x7F800000 : f32
      %p = arith.select %is, %value, %none : f32
      loops.yield %p
    }
    %new = arith.minimumf %old, %least : f32
    loops.store %new, %x[v]
  }
}

// CHECK-LABEL: loops.func @scatter_and_more {
// CHECK-NEXT:    %ids = assign.node "ids" constant : memref<4xi32>
// CHECK-NEXT:    %x = assign.node "x" on_device : memref<6xf32>
// CHECK-NEXT:    %0 = assign.node "x.parts" local because "scattered for x" : memref<6xf32>
// CHECK-NEXT:    loops.nest "x.parts" (v = 6) {
// CHECK-NEXT:      %1 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loops.store %1, %0[v]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "x.parts scatter" (b = 4) {
// CHECK-NEXT:      %id = loops.load %ids[b]
// CHECK-NEXT:      %2, %3 = loops.position %id below 6
// CHECK-NEXT:      %is = arith.constant true
// CHECK-NEXT:      %hot = arith.uitofp %is : i1 to f32
// CHECK-NEXT:      %4 = loops.load %0[%2]
// CHECK-NEXT:      %5 = arith.addf %4, %hot : f32
// CHECK-NEXT:      %6 = arith.select %3, %5, %4 : f32
// CHECK-NEXT:      loops.store %6, %0[%2]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "x" (v = 6) {
// CHECK-NEXT:      %count = loops.load %0[v]
// CHECK-NEXT:      %root = math.sqrt %count : f32
// CHECK-NEXT:      loops.store %root, %x[v]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @scatter_and_more {
  %ids = assign.node "ids" constant : memref<4xi32>
  %x = assign.node "x" on_device : memref<6xf32>
  loops.nest "x" (v = 6) {
    %count = loops.reduce add (b = 4) : f32 {
      %id = loops.load %ids[b]
      %number = arith.sitofp %id : i32 to f32
      %index = loops.index v : f32
      %is = arith.cmpf oeq, %number, %index : f32
      %hot = arith.uitofp %is : i1 to f32
      loops.yield %hot
    }
    %root = math.sqrt %count : f32
    loops.store %root, %x[v]
  }
}

// CHECK-LABEL: loops.func @two_axes {
// CHECK-NEXT:    %rows = assign.node "rows" constant : memref<4xi32>
// CHECK-NEXT:    %columns = assign.node "columns" constant : memref<4xi64>
// CHECK-NEXT:    %x = assign.node "x" constant : memref<6x5x3xf32>
// CHECK-NEXT:    %y = assign.node "y" on_device : memref<4xf32>
// CHECK-NEXT:    loops.nest "y" (b = 4) {
// CHECK-NEXT:      %row = loops.load %rows[b]
// CHECK-NEXT:      %sum = loops.reduce add (k = 3) : f32 {
// CHECK-NEXT:        %column = loops.load %columns[b]
// CHECK-NEXT:        %column_number = arith.sitofp %column : i64 to f32
// CHECK-NEXT:        %0, %1 = loops.position %column below 5
// CHECK-NEXT:        %is_column = arith.constant true
// CHECK-NEXT:        %2, %3 = loops.position %row below 6
// CHECK-NEXT:        %is_row = arith.constant true
// CHECK-NEXT:        %value = loops.load %x[%2, %0, k]
// CHECK-NEXT:        %is = arith.andi %is_row, %is_column : i1
// CHECK-NEXT:        %scaled = arith.mulf %value, %column_number : f32
// CHECK-NEXT:        %zero = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        %p = arith.select %is, %scaled, %zero : f32
// CHECK-NEXT:        %4 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        %5 = arith.select %3, %p, %4 : f32
// CHECK-NEXT:        %6 = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:        %7 = arith.select %1, %5, %6 : f32
// CHECK-NEXT:        loops.yield %7
// CHECK-NEXT:      }
// CHECK-NEXT:      loops.store %sum, %y[b]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @two_axes {
  %rows = assign.node "rows" constant : memref<4xi32>
  %columns = assign.node "columns" constant : memref<4xi64>
  %x = assign.node "x" constant : memref<6x5x3xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  loops.nest "y" (b = 4) {
    %row = loops.load %rows[b]
    %row_number = arith.sitofp %row : i32 to f32
    %sum = loops.reduce add (i = 6, k = 3, j = 5) : f32 {
      %value = loops.load %x[i, j, k]
      %i = loops.index i : f32
      %is_row = arith.cmpf oeq, %row_number, %i : f32
      %column = loops.load %columns[b]
      %column_number = arith.sitofp %column : i64 to f32
      %j = loops.index j : f32
      %is_column = arith.cmpf oeq, %column_number, %j : f32
      %is = arith.andi %is_row, %is_column : i1
      %scaled = arith.mulf %value, %j : f32
      %zero = arith.constant 0.0 : f32
      %p = arith.select %is, %scaled, %zero : f32
      loops.yield %p
    }
    loops.store %sum, %y[b]
  }
}

// CHECK-LABEL: loops.func @others {
// CHECK-NEXT:    %ids = assign.node "ids" constant : memref<6xf32>
// CHECK-NEXT:    %x = assign.node "x" constant : memref<6xf32>
// CHECK-NEXT:    %y = assign.node "y" on_device : memref<3xf32>
// CHECK-NEXT:    loops.nest "y" (b = 3) {
// CHECK-NEXT:      %first = loops.load %ids[b]
// CHECK-NEXT:      %not_zero = loops.reduce add (v = 6) : f32 {
// CHECK-NEXT:        %value = loops.load %x[v]
// CHECK-NEXT:        %index = loops.index v : f32
// CHECK-NEXT:        %is = arith.cmpf oeq, %first, %index : f32
// CHECK-NEXT:        %hot = arith.uitofp %is : i1 to f32
// CHECK-NEXT:        %p = math.fma %hot, %value, %value : f32
// CHECK-NEXT:        loops.yield %p
// CHECK-NEXT:      }
// CHECK-NEXT:      %varies = loops.reduce add (v = 6) : f32 {
// CHECK-NEXT:        %id = loops.load %ids[v]
// CHECK-NEXT:        %index_1 = loops.index v : f32
// CHECK-NEXT:        %is_1 = arith.cmpf oeq, %id, %index_1 : f32
// CHECK-NEXT:        %hot_1 = arith.uitofp %is_1 : i1 to f32
// CHECK-NEXT:        loops.yield %hot_1
// CHECK-NEXT:      }
// CHECK-NEXT:      %neutral = loops.reduce max (v = 6) : f32 {
// CHECK-NEXT:        %value_1 = loops.load %x[v]
// CHECK-NEXT:        %index_2 = loops.index v : f32
// CHECK-NEXT:        %is_2 = arith.cmpf oeq, %first, %index_2 : f32
// CHECK-NEXT:        %hot_2 = arith.uitofp %is_2 : i1 to f32
// CHECK-NEXT:        %p_1 = arith.mulf %hot_2, %value_1 : f32
// CHECK-NEXT:        loops.yield %p_1
// CHECK-NEXT:      }
// CHECK-NEXT:      %s = arith.addf %not_zero, %varies : f32
// CHECK-NEXT:      %t = arith.addf %s, %neutral : f32
// CHECK-NEXT:      loops.store %t, %y[b]
// CHECK-NEXT:    }
// CHECK-NEXT:  }
loops.func @others {
  %ids = assign.node "ids" constant : memref<6xf32>
  %x = assign.node "x" constant : memref<6xf32>
  %y = assign.node "y" on_device : memref<3xf32>
  loops.nest "y" (b = 3) {
    %first = loops.load %ids[b]
    %not_zero = loops.reduce add (v = 6) : f32 {
      %value = loops.load %x[v]
      %index = loops.index v : f32
      %is = arith.cmpf oeq, %first, %index : f32
      %hot = arith.uitofp %is : i1 to f32
      %p = math.fma %hot, %value, %value : f32
      loops.yield %p
    }
    %varies = loops.reduce add (v = 6) : f32 {
      %id = loops.load %ids[v]
      %index = loops.index v : f32
      %is = arith.cmpf oeq, %id, %index : f32
      %hot = arith.uitofp %is : i1 to f32
      loops.yield %hot
    }
    %neutral = loops.reduce max (v = 6) : f32 {
      %value = loops.load %x[v]
      %index = loops.index v : f32
      %is = arith.cmpf oeq, %first, %index : f32
      %hot = arith.uitofp %is : i1 to f32
      %p = arith.mulf %hot, %value : f32
      loops.yield %p
    }
    %s = arith.addf %not_zero, %varies : f32
    %t = arith.addf %s, %neutral : f32
    loops.store %t, %y[b]
  }
}

// An axis without elements has no position: a reduction over it stays.
// CHECK-LABEL: loops.func @empty {
// CHECK:           %sum = loops.reduce add (v = 0) : f32 {
// CHECK-NOT:     loops.position
loops.func @empty {
  %ids = assign.node "ids" constant : memref<4xf32>
  %x = assign.node "x" constant : memref<0xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  loops.nest "y" (b = 4) {
    %sum = loops.reduce add (v = 0) : f32 {
      %value = loops.load %x[v]
      %id = loops.load %ids[b]
      %index = loops.index v : f32
      %is = arith.cmpf oeq, %id, %index : f32
      %hot = arith.uitofp %is : i1 to f32
      %p = arith.mulf %value, %hot : f32
      loops.yield %p
    }
    loops.store %sum, %y[b]
  }
}

// For a GPU, cells that search through few points in all go on with it.
// RUN: ocannl-opt %s -p 'index-by-comparison{searched=1000000}' | filecheck %s --check-prefix=SEARCHED
// SEARCHED-NOT: scatter"
