worker_processes 2
logger Logger.new(File::NULL)
