"""A deployed model: a job whose process keeps its place in the lab, and has its calls answered on what it holds.

child        the job's process, from the queue to its end; start reading at `Deployment._life`
places       where the model runs, and how it comes there: claim, load, move, leave
desk         takes calls, keeps a bounded queue, has them run in batches, and gives the answers out
checked      whether what came is a call that the model takes
waiting      the queue itself: who is taken, who is next (pure)
schedule     what will run when, and together, if nobody else comes (pure)
reserve      how far what was foreseen has been off, and what is kept in reserve for that (pure)
profile      how long runs and loads take, going by the last ones (pure)
residents    which models' weights are on the device, and which leave (pure)
figures      how many calls, how fast (pure)
standing     one instance, as the job's process sees it: started, loaded, ended
instance     the process on a device: sessions of ONNX Runtime; it ends to leave its device
session      a session, its trial, its batches
loader       loads weights while another model runs
shells       one whose weights come and go
runtime      what of ONNX Runtime is used, as one seam
providers    the settings of ONNX Runtime for a device (pure)
"""
