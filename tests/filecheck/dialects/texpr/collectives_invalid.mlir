// RUN: ocannl-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: the routine's mesh has no axis "model"
texpr.routine @no_axis mesh (data = 2) {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.all_reduce %x add over "model" : !texpr.tensor<4, f32>
}

// -----

// CHECK: 4 ranks have parts of 3 of 10, found 4
texpr.routine @parts mesh (data = 4) {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.all_gather %x at 0 of 10 over "data" : !texpr.tensor<10, f32>
}

// -----

// CHECK: the sizes of the result are [3], found [4]
texpr.routine @sizes mesh (data = 4) {
  %x = texpr.data "x" : !texpr.tensor<10, f32>
  %y = texpr.reduce_scatter %x add to 0 over "data" : !texpr.tensor<4, f32>
}

// -----

// CHECK: axis 1 of a tensor of 1 axes
texpr.routine @axes mesh (data = 4) {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y = texpr.all_to_all %x at 0 of 10 to 1 over "data" : !texpr.tensor<10, f32>
}

// -----

// CHECK: a tensor is split along another axis than before
texpr.routine @same mesh (data = 4) {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y = texpr.all_to_all %x at 0 of 10 to 0 over "data" : !texpr.tensor<3, f32>
}

// -----

// CHECK: each axis of a mesh has a number of ranks
texpr.routine @none mesh (data = 0) {
}

// -----

// CHECK: 4 ranks have parts of 25 of 99 along axis 0, found 3
texpr.routine @splits mesh (data = 4) {
  %x = texpr.data "x" split 0 of 99 over "data" : !texpr.tensor<3 | 8, f32>
}

// -----

// CHECK: the routine's mesh has no axis "model"
texpr.routine @splits_over mesh (data = 4) {
  %x = texpr.apply [i] = 1.0 over (i = 3) split 0 of 10 over "model" : !texpr.tensor<3, f32>
}

// -----

// CHECK: 2 ranks have parts of 6 of 12 along axis 0, found 3
texpr.routine @splits_in_turn mesh (data = 2, model = 4) {
  %x = texpr.param "x" split 0 of 24 over "data" split 0 of 12 over "model" : !texpr.tensor<3, f32>
  %y = texpr.grad %x split 0 of 12 over "data" : !texpr.tensor<3, f32>
}
